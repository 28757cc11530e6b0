"""What there is to choose from: methods and datasets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from understudy.data.catalog import DATA_VARIABLE, catalog
from understudy.errors import UserError
from understudy.methods.config import ResolvedConfig, describe_config, resolve_config
from understudy.methods.contract import Method
from understudy.methods.info import MethodInfo, PublicRecords, PublicWeights
from understudy.methods.presets import DEFAULT, find_presets
from understudy.methods.registry import get_method, method_names
from understudy.run.listing import Listing

if TYPE_CHECKING:
    from understudy.evaluation.metric import Row
    from understudy.run.demo import Demo


def list_methods() -> Listing:
    """Every method that is installed, ours and third parties'."""
    rows = tuple(_method_row(name) for name in method_names())
    return Listing(
        ("method", "family", "claim", "summary"),
        rows,
        after=("", "Settings of one: understudy methods NAME.  Advice: --for DATA."),
    )


def describe_method(name: str, preset: str | None = None) -> Listing:
    """One method with its settings, as one of its presets has them."""
    method = get_method(name)
    info = method.info
    settings, chosen = describe_config(method.Config), resolve_config(method, preset=preset)
    rows = tuple((s.name, str(getattr(chosen.config, s.name)), s.allowed, s.help) for s in settings)
    before = [f"{info.name}: {info.summary}", f"paper: {info.paper}", f"uses: {info.mechanism}"]
    before += _asked_of_a_run(info)
    before += [f"changed for soundness: {change}" for change in info.changed_for_soundness]
    before += [f"preset {chosen.preset}: {chosen.tuned_on}"]
    headings = ("setting", "default" if preset is None else "value", "allowed", "meaning")
    return Listing(headings, rows, (*before, ""), _other_presets(method, chosen))


def _other_presets(method: Method, shown: ResolvedConfig) -> tuple[str, ...]:
    """The names that `--preset` takes, beside the one that is shown."""
    entries = find_presets(method).entries
    names = dict.fromkeys([DEFAULT, *(e.name for e in entries if e.dataset in catalog())])
    others = [name for name in names if name != shown.preset]
    return ("", f"Other presets (--preset NAME): {'; '.join(others)}.") if others else ()


def _asked_of_a_run(info: MethodInfo) -> list[str]:
    """What a run must give it, beside records with a label."""
    said = [_input_in_words(entry) for entry in info.public]
    if len(info.parts) > 1:
        shares = ", ".join(f"{name} {share:g}" for name, share in info.parts.items())
        said.append(f"divides the private records into: {shares}")
    if info.hides:
        said.append("takes --hide A,B (needed) and --keep A,B: attributes to hide and to keep")
    if info.needs:
        said.append(f"needs packages: {', '.join(info.needs)}")
    return said


def _input_in_words(entry: PublicRecords | PublicWeights) -> str:
    """One public input, with the words that give it."""
    if isinstance(entry, PublicRecords):
        option, usual = f"--public {entry.name}=DATA", None
    else:
        option, usual = f"--weights {entry.name}=FILE", entry.default
    needed = "needed" if entry.needed else "not needed"
    how = needed if usual is None else f"{usual} unless another is named"
    return f"takes {option} ({how}): {entry.summary}"


def list_datasets() -> Listing:
    """The catalog, and where each dataset's raw files are looked for."""
    rows = tuple(
        (
            entry.name,
            "x".join(str(side) for side in entry.shape),
            " / ".join(f"{part.count:,}" for part in entry.parts.values()),
            "yes" if entry.terms.pictures_shown else "no",
            "yes" if entry.terms.models_shipped else "no",
            entry.licence,
            entry.summary,
        )
        for entry in catalog().values()
    )
    notes = tuple(f"{entry.name}: {entry.notes}." for entry in catalog().values() if entry.notes)
    place = os.environ.get(DATA_VARIABLE)
    where = f"{DATA_VARIABLE}={place}" if place else f"{DATA_VARIABLE} is not set"
    return Listing(
        (
            "dataset",
            "image",
            "train / test",
            "pictures shown",
            "models shipped",
            "licence",
            "summary",
        ),
        rows,
        after=(
            "",
            f"Raw files are looked for under ${DATA_VARIABLE}/<name>/ ({where}).",
            "pictures shown: whether pictures of it, or of a model of it, may stand in what others "
            "see; models shipped: whether a model trained on it may be handed on.",
            *notes,
        ),
    )


def demo_table(found: Demo) -> str:
    """The demo's figures: what a classifier learns from each release."""
    rows = []
    for run in found.runs:
        best = [r for r in run.evaluation.rows if r.metric == "gen2real accuracy"]
        for row in best:
            rows.append(
                (run.result.claim.method.name, f"{row.metric}, {row.variant}", *_cells(row))
            )
    stamp = found.runs[0].evaluation.protocol.stamp or ""
    headings = (
        "method",
        "trained on synthetic, tested on real",
        "value",
        "interval",
        "real",
        "chance",
    )
    return Listing(headings, tuple(rows), after=(stamp, "")).text()


def _method_row(name: str) -> tuple[str, str, str, str]:
    """A method that cannot be loaded is a row with its reason, not a gap."""
    try:
        info = get_method(name).info
    except UserError as error:
        return name, "-", "-", str(error)
    return info.name, info.family, info.claim, info.summary


def _cells(row: Row) -> tuple[str, str, str, str]:
    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f}%"

    if row.status != "ok":
        return (f"failed: {row.reason}", "-", "-", "-")
    interval = f"{percent(row.low)} to {percent(row.high)}"
    return percent(row.value), interval, percent(row.reference), percent(row.chance)
