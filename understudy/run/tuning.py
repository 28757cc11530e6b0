"""What the claim says about how settings were chosen (rule 7)."""

from __future__ import annotations

from understudy.methods.config import ResolvedConfig
from understudy.release.claim import Tuning
from understudy.run.config import NOTHING_SELECTED, RunConfig


def tuning_of(config: RunConfig, settings: ResolvedConfig, earlier_runs: int) -> Tuning:
    """What the owner declared; else what the book and the preset show, claiming no more.

    A preset that was tuned on this very data is never covered, whatever is declared.
    Undeclared, a choice among earlier runs on the same data is possible and is said to be
    uncovered; so are settings changed by hand.
    """
    presets = (f"the presets that ship with the method (this one: {settings.preset})",)
    made = f"what they were made on ({settings.tuned_on})"
    if config.selected_among:
        covered = config.selection_covered and not settings.tuned_on_itself
        return Tuning(covered, config.selected_among, config.selected_by)
    if settings.tuned_on_itself:
        return Tuning(False, presets, made)
    if config.selected_by == NOTHING_SELECTED:
        return Tuning(covered=True)
    if earlier_runs:
        runs = "1 earlier run" if earlier_runs == 1 else f"{earlier_runs} earlier runs"
        among = (f"this and {runs} on the same data",)
        return Tuning(False, among, "a criterion that was not stated")
    if settings.changed:
        return Tuning(covered=False)
    return Tuning(True, presets, f"{made}, as far as this account book shows")
