"""What the measured figures of `selection_inflation.py` say: differences, picture, table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pictures import standalone

from understudy.evaluation.intervals import student_half_width
from understudy.evaluation.selection import HELD_OUT, PRIVATE_VALIDATION, TEST
from understudy.report import svg

PICTURE = "images/selection-inflation.svg"
PAGE = "protocols.md"

KINDS = {
    "epoch on test": "epoch chosen on test",
    "epoch on validation": "epoch chosen on private validation",
    "epoch and classifier on test": "epoch and best of three chosen on test",
    "epoch and classifier on validation": "epoch and best of three chosen on private validation",
    "best on test against mean": "best of three on test, against the mean of three",
}
"""Each against held-out synthetic records in the same trainings; the last against their mean."""

_BLOCK = re.compile(
    r"(?<=<!-- selection inflation: begin -->\n).*?(?=<!-- selection inflation: end -->)", re.DOTALL
)


def differences(figures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each dataset, budget and kind: the difference by release, and its mean in points.

    The interval is Student's t over the releases: it covers method, noise and training.
    """
    found = []
    groups = dict.fromkeys((f["dataset"], f["epsilon"]) for f in figures)
    for dataset, epsilon in groups:
        own = [f for f in figures if (f["dataset"], f["epsilon"]) == (dataset, epsilon)]
        releases = [[f for f in own if f["seed"] == s] for s in sorted({f["seed"] for f in own})]
        for kind in KINDS:
            values = [difference(kind, release) for release in releases]
            half = student_half_width(values) if len(values) > 1 else 0.0
            centre = fmean(values)
            found.append(
                {
                    "dataset": dataset,
                    "epsilon": epsilon,
                    "kind": kind,
                    "points": 100 * centre,
                    "low": 100 * (centre - half),
                    "high": 100 * (centre + half),
                    "releases": [100 * value for value in values],
                }
            )
    return found


def difference(kind: str, release: Sequence[Mapping[str, Any]]) -> float:
    """One release: what this way of choosing shows above what held-out records choose."""
    by_rule = {
        rule: [f for f in release if f["selection"] == rule]
        for rule in (HELD_OUT, PRIVATE_VALIDATION, TEST)
    }
    rule = PRIVATE_VALIDATION if kind.endswith("validation") else TEST
    if kind.startswith("epoch on"):
        return _mean(by_rule[rule]) - _mean(by_rule[HELD_OUT])
    honest = _mean if kind == "best on test against mean" else _preferred
    return _preferred(by_rule[rule]) - honest(by_rule[HELD_OUT])


def _mean(figures: Sequence[Mapping[str, Any]]) -> float:
    return fmean(f["accuracy"] for f in figures)


def _preferred(figures: Sequence[Mapping[str, Any]]) -> float:
    """The test accuracy of the classifier with the highest score by the rule."""
    return float(max(figures, key=_score)["accuracy"])


def _score(figure: Mapping[str, Any]) -> float:
    return float(figure["score"])


def picture(result: Mapping[str, Any]) -> str:
    """The differences with their intervals, as a picture that stands alone."""
    marks = [
        svg.DotInterval(
            label=f"{d['dataset']}, epsilon {d['epsilon']:g}: {KINDS[d['kind']]}",
            value=d["points"],
            low=d["low"],
            high=d["high"],
            reference=None,
            chance=0.0,
            text=f"{d['points']:+.1f}",
        )
        for d in result["differences"]
    ]
    described = "; ".join(f"{mark.label}: {mark.text} points" for mark in marks)
    chart = svg.dot_intervals(
        marks,
        width=760.0,
        axis="points of accuracy above the held-out choice (dashed: no difference)",
        described=f"How much choosing on real records adds to the score. {described}",
        bounds=(None, None),
    )
    return standalone(chart)


def table(result: Mapping[str, Any]) -> list[str]:
    """The lines of the page's table."""
    lines = ["| data | epsilon | chosen on real records | points above the held-out choice |"]
    lines.append("|---|---|---|---|")
    for d in result["differences"]:
        shown = f"{d['points']:+.2f} ({d['low']:+.2f} to {d['high']:+.2f})"
        lines.append(f"| `{d['dataset']}` | {d['epsilon']:g} | {KINDS[d['kind']]} | {shown} |")
    return lines


def write_docs(result: Mapping[str, Any], docs: Path) -> None:
    """Draw the figure, and put the table into its place on the page."""
    (docs / PICTURE).write_text(picture(result), encoding="utf-8")
    page = (docs / PAGE).read_text(encoding="utf-8")
    block = "\n".join(["", *table(result), "", ""])
    (docs / PAGE).write_text(_BLOCK.sub(lambda _: block, page), encoding="utf-8")
