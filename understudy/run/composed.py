"""What a dataset's runs cost together, told beside the epsilon of one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from understudy.privacy.accounting.accountants import Cost
from understudy.privacy.ledger.account_book import Book, book_name
from understudy.privacy.ledger.account_totals import BookRun, total_of
from understudy.privacy.plan.plan import Plan, json_number
from understudy.run.config import RunConfig


@dataclass(frozen=True)
class Composed:
    """Of one account book: the total of its other runs, and with this one; audits are in both.

    runs: how many there are with this one. Local runs are composed with local ones alone.
    """

    dataset: str
    delta: float
    runs: int
    others: Cost
    together: Cost

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "delta": self.delta,
            "runs": self.runs,
            "others": json_number(self.others.epsilon),
            "together": json_number(self.together.epsilon),
        }

    def sentence(self) -> str:
        """For the owner's console.

        >>> from understudy.privacy.accounting.accountants import Cost
        >>> Composed("scans", 1e-5, 1, Cost(0.0, "PLD"), Cost(0.9871, "PLD")).sentence()
        'epsilon 0.988 at delta 1e-05, all runs on scans: this one alone'
        """
        total = f"epsilon {up(self.together)} at delta {self.delta:g}, all runs on {self.dataset}"
        if self.runs == 1:
            return f"{total}: this one alone"
        others = "1 other" if self.runs == 2 else f"{self.runs - 1} others"
        return f"{total}: this one and {others} ({up(self.others)})"


def up(cost: Cost) -> str:
    """An epsilon to three decimals, never below the figure."""
    if math.isinf(cost.epsilon):
        return "infinite"
    return f"{math.ceil(cost.epsilon * 1000 - 1e-9) / 1000:g}"


def composed_with_one_more(config: RunConfig, plan: Plan, home: Path | None) -> Composed:
    """The whole of this dataset's book, and with another run that spends as this one did."""
    return composed_with(config, replace(plan, ident=Plan.new_ident()), home)


def composed_with(config: RunConfig, plan: Plan, home: Path | None) -> Composed:
    """The whole of this dataset's book with this plan in it, entered by now or not.

    Guarantee: as `Book.total`: whole plans of every run that was entered, sequentially composed,
    at the delta of this plan. It reads the book and writes nothing.
    """
    name = config.dataset or book_name(config.source)
    own = BookRun(plan.ident, plan, "release", {}, "")
    others = tuple(
        run
        for run in Book.look(name, home).runs()
        if run.run_id != plan.ident and (run.is_local == own.is_local or run.is_empirical)
    )
    without, together = total_of(others, plan.delta), total_of((*others, own), plan.delta)
    local = own.is_local
    return Composed(
        config.dataset or Path(config.source).name,
        plan.delta,
        len(others) + 1,
        without.local_all_runs if local else without.all_runs,
        together.local_all_runs if local else together.all_runs,
    )
