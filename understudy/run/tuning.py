"""What the claim says about how settings were chosen (rule 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.errors import UserError
from understudy.evaluation.protocol import load_protocol, protocol_names
from understudy.methods.config import BY_RULE, ResolvedConfig
from understudy.privacy.ledger.account_totals import BookRun
from understudy.release.claim import ON_TEST_DATA, Tuning
from understudy.run.config import NOTHING_SELECTED, RunConfig

PRIVATE_EVALUATION = "private evaluation"
"""The criterion, as a claim names it, of whoever saw figures on real records and ran again."""


@dataclass(frozen=True)
class EarlierRuns:
    """What the account book holds beside one run: how many others, and how many of those were
    evaluated on real records."""

    count: int = 0
    evaluated: int = 0

    @staticmethod
    def beside(runs: Sequence[BookRun], ident: str | None) -> EarlierRuns:
        """Of all runs of a book but the one of this plan: whatever its purpose, budget and end, a
        run that was entered counts. It may have been looked at."""
        others = [run for run in runs if run.run_id != ident]
        return EarlierRuns(len(others), sum(bool(run.evaluated) for run in others))


def tuning_of(config: RunConfig, settings: ResolvedConfig, earlier: EarlierRuns) -> Tuning:
    """What the owner declared; else what the book and the preset show, claiming no more.

    Guarantee: undeclared, one earlier run on the same data is enough for tuning not to be
    covered, whatever became of it: a run that was not released may be just the one that was
    not chosen. How many were released is not said: that may depend on a record. Where one of them
    was evaluated, the criterion is said to be that evaluation. A preset
    that was tuned on this very data is never covered, whatever is declared; settings changed by
    hand are not either.
    """
    presets, made = _shipped(settings)
    if config.selected_among:
        covered = config.selection_covered and not settings.tuned_on_itself
        return Tuning(covered, config.selected_among, _criterion(config.selected_by))
    if settings.tuned_on_itself:
        return Tuning(False, presets, made)
    if config.selected_by == NOTHING_SELECTED:
        return Tuning(covered=True)
    if earlier.count:
        runs = "1 earlier run" if earlier.count == 1 else f"{earlier.count} earlier runs"
        among = (f"this and {runs} on the same data (released or not)",)
        by = PRIVATE_EVALUATION if earlier.evaluated else "a criterion that was not stated"
        return Tuning(False, among, by)
    if settings.changed:
        return Tuning(covered=False)
    return Tuning(True, presets, f"{made}, as far as the owner's account book shows")


def _shipped(settings: ResolvedConfig) -> tuple[tuple[str, ...], str]:
    """What came with Understudy and was chosen among, and what that was made on."""
    among = (
        "the settings by rule that ship with the method"
        if settings.preset == BY_RULE
        else f"the presets that ship with the method (this one: {settings.preset})"
    )
    made = f"what they were made on ({settings.tuned_on}"
    if settings.ranked_on is None:
        return (among,), f"{made})"
    methods = "the methods that ship, in the order for such data"
    return (methods, among), f"{made}; methods compared on: {settings.ranked_on})"


def _criterion(stated: str | None) -> str | None:
    """What was stated; a protocol that chooses on real records is test data by another name."""
    if stated is None:
        return None
    is_a_file = Path(stated).suffix in (".yaml", ".yml") and Path(stated).is_file()
    names_a_protocol = is_a_file or stated in protocol_names()
    if names_a_protocol and load_protocol(stated).benchmark_only:
        return ON_TEST_DATA
    return stated


def question_selection(config: RunConfig, earlier: EarlierRuns) -> None:
    """Refuse "nothing was selected" from an owner who has seen figures, unless it is confirmed.

    Called before anything is spent. A run that went on as before an evaluation is no choice by
    it; only its owner can know that, and says so with --selection-covered.
    """
    if config.selected_by != NOTHING_SELECTED or config.selection_covered:
        return
    if earlier.evaluated:
        runs = "a run" if earlier.evaluated == 1 else f"{earlier.evaluated} runs"
        raise UserError(
            f"--selected-by {NOTHING_SELECTED} is in question: the account book holds {runs} on "
            "these data that you evaluated; add --selection-covered if every setting of this run "
            "was fixed before you saw those figures, or leave --selected-by out (the claim then "
            "says that tuning is not covered)."
        )
