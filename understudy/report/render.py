"""From data to the two pages: the shareable report and the owner's.

Guarantee: `render_public` takes a `ReportData` alone, which has no field for anything
measured on real data, and its template is given nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from understudy.data.records import Records
from understudy.durable import replace_durably
from understudy.report import svg, words
from understudy.report.claim_view import ClaimView, claim_view, flat_settings
from understudy.report.grid import Sheet, sheet
from understudy.report.model import OwnerData, ReportData
from understudy.report.results import results
from understudy.report.spending import Spending, spending
from understudy.report.timeline import timeline

OWNER_FILE = "report.html"
PUBLIC_FILE = "report-public.html"


def render_public(data: ReportData) -> str:
    """The shareable report: one self-contained HTML page."""
    return _page("public.html.j2", _public_context(data))


def render_owner(data: ReportData, owner: OwnerData) -> str:
    """The owner's report: all of the shareable one, and what real data showed."""
    return _page("owner.html.j2", {**_public_context(data), **_owner_context(data, owner)})


def write_reports(folder: Path, data: ReportData, owner: OwnerData) -> tuple[Path, Path]:
    """Write both reports into a run folder, each whole or not at all.

    Both are rendered before either is written. Returns the owner's path and the public one.
    """
    shared = _public_context(data)
    pages = {
        OWNER_FILE: _page("owner.html.j2", {**shared, **_owner_context(data, owner)}),
        PUBLIC_FILE: _page("public.html.j2", shared),
    }
    for name, page in pages.items():
        replace_durably(folder / name, page.encode("utf-8"))
    return folder / OWNER_FILE, folder / PUBLIC_FILE


def _page(template: str, context: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("understudy.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    environment.filters["epsilon"] = words.epsilon_up
    environment.filters["unbroken"] = words.unbroken
    environment.filters["number"] = words.number
    environment.filters["percent_share"] = lambda share: f"{100 * share:.0f}%"
    return environment


def _cleaned(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return words.clean(value)


def _public_context(data: ReportData) -> dict[str, Any]:
    claim = claim_view(data.claim)
    spent = spending(data.claim, data.ledger)
    settings = data.settings or (data.claim.get("method") or {}).get("config") or {}
    return {
        "title": data.title,
        "claim": claim,
        "spending": spent,
        "certainty_chart": _certainty_chart(claim) if claim.is_formal else None,
        "cost_chart": _cost_chart(claim, spent),
        "sheet": _sheet(data.samples),
        "settings": flat_settings(settings),
        "digest": data.digest,
    }


def _owner_context(data: ReportData, owner: OwnerData) -> dict[str, Any]:
    happened = spending(data.claim, owner.own_ledger)
    return {
        "happened": happened,
        "timeline_chart": svg.at_both_widths(lambda width: timeline(happened, width=width))
        if happened.attempts
        else None,
        "results": results(owner.metrics) if owner.metrics is not None else None,
        "curves": [
            (
                curve.name,
                svg.lines(
                    curve.x,
                    curve.y,
                    width=360.0,
                    x_label=curve.x_label,
                    y_label=curve.y_label,
                    described=f"{curve.name}: {curve.y_label or 'value'} by {curve.x_label}",
                ),
            )
            for curve in owner.curves
        ],
        "timings": _timings_chart(owner.timings) if owner.timings else None,
        "total_time": words.duration(sum(owner.timings.values())),
        "counts": [(name, f"{count:,}") for name, count in owner.counts.items()],
        "warnings": list(owner.warnings),
        "notes": list(owner.notes),
        "hardware": list(owner.hardware.items()),
        **({} if owner.own_samples is None else {"sheet": _sheet(owner.own_samples)}),
    }


def _sheet(samples: Records | None) -> Sheet | None:
    drawable = samples is not None and samples.is_images and len(samples) > 0
    return sheet(samples) if drawable and samples is not None else None


def _certainty_chart(claim: ClaimView) -> Markup:
    described = (
        f"A guess about one {claim.protected} is right at most {claim.ceiling_words} of the time; "
        "a coin toss is right half of the time."
    )
    return svg.at_both_widths(
        lambda width: svg.certainty(
            claim.ceiling, f"at most {claim.ceiling_words}", width=width, described=described
        )
    )


def _cost_chart(claim: ClaimView, spent: Spending) -> Markup:
    """Each mechanism's cost alone, then all of them composed, against the budget."""
    alone = [
        svg.Bar(f"{row.name}, alone", row.epsilon_alone, words.epsilon_up(row.epsilon_alone))
        for row in spent.rows
        if row.epsilon_alone is not None
    ]
    label = "All together, composed"
    tone = "total" if claim.is_formal else "danger"
    total = svg.Bar(label, claim.epsilon, claim.epsilon_words, tone)
    rows = [*alone, total] if len(alone) > 1 else [total]
    budget = spent.budget
    limit = None if budget is None else svg.Limit(budget, f"budget {words.number(budget, 6)}")
    described = f"Epsilon of each part alone and of all composed: {claim.epsilon_words}" + (
        "." if budget is None else f", against a budget of {words.epsilon_up(budget)}."
    )
    return svg.at_both_widths(
        lambda width: svg.bars(rows, width=width, axis="epsilon", described=described, limit=limit)
    )


def _timings_chart(timings: Mapping[str, float]) -> Markup:
    rows = [svg.Bar(name, seconds, words.duration(seconds)) for name, seconds in timings.items()]
    described = "Time by phase: " + "; ".join(f"{row.label} {row.text}" for row in rows)
    return svg.at_both_widths(
        lambda width: svg.bars(rows, width=width, axis="seconds", described=described)
    )
