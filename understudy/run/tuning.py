"""What the claim says about how settings were chosen (rule 7)."""

from __future__ import annotations

from pathlib import Path

from understudy.evaluation.protocol import load_protocol, protocol_names
from understudy.methods.config import ResolvedConfig
from understudy.release.claim import ON_TEST_DATA, Tuning
from understudy.run.config import NOTHING_SELECTED, RunConfig


def tuning_of(config: RunConfig, settings: ResolvedConfig, earlier_runs: int) -> Tuning:
    """What the owner declared; else what the book and the preset show, claiming no more.

    Guarantee: undeclared, one earlier run on the same data is enough for tuning not to be
    covered, whatever became of it: a run that was not released may be just the one that was
    not chosen. How many were released is not said: that may depend on a record. A preset
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
        runs = "1 earlier run" if earlier_runs == 1 else f"{earlier_runs} earlier runs"
        among = (f"this and {runs} on the same data (released or not)",)
        return Tuning(False, among, "a criterion that was not stated")
    if settings.changed:
        return Tuning(covered=False)
    return Tuning(True, presets, f"{made}, as far as the owner's account book shows")


def _criterion(stated: str | None) -> str | None:
    """What was stated; a protocol that chooses on real records is test data by another name."""
    if stated is None:
        return None
    is_a_file = Path(stated).suffix in (".yaml", ".yml") and Path(stated).is_file()
    names_a_protocol = is_a_file or stated in protocol_names()
    if names_a_protocol and load_protocol(stated).benchmark_only:
        return ON_TEST_DATA
    return stated
