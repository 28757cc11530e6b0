"""What all runs on a dataset cost stands beside what one of them costs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.plan.mechanisms import NoisySum, Reveal
from understudy.privacy.plan.plan import Budget, Plan
from understudy.run.composed import composed_with
from understudy.run.config import RunConfig

CONFIG = RunConfig("scans", "dp-merf", 1.0, dataset="clinic")


def plan_of(sigma: float | None) -> Plan:
    if sigma is None:
        return Plan(
            Budget.empirical(), (Reveal("a", reason="b"),), math.inf, "none", Plan.new_ident()
        )
    mechanism = NoisySum("sum", clip=1.0, sigma=sigma)
    return Plan(Budget(50.0, 1e-5), (mechanism,), 1.0, "any", Plan.new_ident())


def test_a_plan_counts_once_whether_it_was_entered_or_not(tmp_path: Path) -> None:
    plan = plan_of(5.0)
    ahead = composed_with(CONFIG, plan, tmp_path)
    assert not (tmp_path / "books").exists(), "a look ahead makes no book"
    book = Book.open("clinic", tmp_path)
    book.enter(plan.ident, plan)
    entered = composed_with(CONFIG, plan, tmp_path)
    assert ahead == entered
    assert (entered.runs, entered.others.epsilon) == (1, 0.0)
    assert entered.together == book.total(1e-5).all_runs


def test_every_run_of_the_book_is_in_the_total(tmp_path: Path) -> None:
    book, other = Book.open("clinic", tmp_path), plan_of(3.0)
    book.enter(other.ident, other, purpose="audit")
    found = composed_with(CONFIG, plan_of(3.0), tmp_path)
    assert found.runs == 2
    assert found.others == book.total(1e-5).all_runs
    assert found.together.epsilon > 1.3 * found.others.epsilon
    assert "this one and 1 other (" in found.sentence()
    revealed = plan_of(None)
    book.enter(revealed.ident, revealed)
    assert "epsilon infinite" in composed_with(CONFIG, plan_of(3.0), tmp_path).sentence()


def test_plans_and_runs_print_it(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o")
    assert "this one alone" in workplace.run(*words, "a", "--dry-run").succeeded().out
    assert "this one alone" in workplace.run(*words, "a").succeeded().out
    ahead = workplace.run(*words, "b", "--dry-run", "--json").json()["composed"]
    done = workplace.run(*words, "b", "--json").json()["composed"]
    assert ahead["runs"] == done["runs"] == 2
    assert ahead["together"] == pytest.approx(done["together"], rel=0.01)
    assert done["together"] > 1.3
    spent = workplace.run("spent", "photos", "--json").json()["all_runs"]
    assert spent == done["together"]


def test_no_release_tells_of_the_other_runs(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "a")
    workplace.run(*words).succeeded()
    for path in ("a/claim.json", "a/README.md", "runs/a/report-public.html"):
        assert "all runs on" not in (workplace / path).read_text()
