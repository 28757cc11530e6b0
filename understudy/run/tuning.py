"""What the claim says about how settings were chosen (rule 7)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from understudy.evaluate.protocol import load_protocol, protocol_names
from understudy.methods.config import ResolvedConfig
from understudy.privacy.ledger.account_totals import BookRun
from understudy.release.claim import ON_TEST_DATA, Tuning
from understudy.run.config import NOTHING_SELECTED, RunConfig


def tuning_of(
    config: RunConfig, settings: ResolvedConfig, earlier_runs: Sequence[BookRun]
) -> Tuning:
    """What the owner declared; else what the book and the preset show, claiming no more.

    Guarantee: undeclared, one earlier run on the same data is enough for tuning not to be
    covered, whatever became of it: a run that was not released may be just the one that was
    not chosen. So all are counted, and the words say how many of them were released. A preset
    that was tuned on this very data is never covered, whatever is declared; settings changed by
    hand are not either.
    """
    presets = (f"the presets that ship with the method (this one: {settings.preset})",)
    made = f"what they were made on ({settings.tuned_on})"
    if config.selected_among:
        covered = config.selection_covered and not settings.tuned_on_itself
        return Tuning(covered, config.selected_among, _criterion(config.selected_by))
    if settings.tuned_on_itself:
        return Tuning(False, presets, made)
    if config.selected_by == NOTHING_SELECTED:
        return Tuning(covered=True)
    if earlier_runs:
        among = (f"this and {_counted(earlier_runs)}",)
        return Tuning(False, among, "a criterion that was not stated")
    if settings.changed:
        return Tuning(covered=False)
    return Tuning(True, presets, f"{made}, as far as this account book shows")


def _counted(runs: Sequence[BookRun]) -> str:
    """Runs of the account book by what became of them, as far as the book knows.

    Released means that a release of it was announced to the book; audits never are.
    """
    audits = sum(run.purpose == "audit" for run in runs)
    released = sum(bool(run.released) for run in runs)
    others = len(runs) - released - audits
    parts = [
        *([f"{released} released"] if released else []),
        *([f"{others} not released"] if others else []),
        *([f"{audits} for an audit"] if audits else []),
    ]
    many = "1 earlier run" if len(runs) == 1 else f"{len(runs)} earlier runs"
    return f"{many} on the same data ({', '.join(parts)})"


def _criterion(stated: str | None) -> str | None:
    """What was stated; a protocol that chooses on real records is test data by another name."""
    if stated is None:
        return None
    is_a_file = Path(stated).suffix in (".yaml", ".yml") and Path(stated).is_file()
    names_a_protocol = is_a_file or stated in protocol_names()
    if names_a_protocol and load_protocol(stated).benchmark_only:
        return ON_TEST_DATA
    return stated
