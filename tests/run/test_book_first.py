"""Rule 8: the whole plan stands in the account book, on the disk, before the first record."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest

import understudy.privacy.door.private_records
import understudy.privacy.dpsgd.engine
from tests import drawing
from tests.workplace import SMALL_GAN, SMALL_MERF, Workplace
from understudy.errors import UserError
from understudy.privacy.ledger.account_book import Book

RUNS = {
    "one-shot": (*SMALL_MERF, "--epsilon", "1", "-o", "out"),
    "DP-SGD": (*SMALL_GAN, "--set", "steps=3", "--epsilon", "1", "-o", "out"),
}


class Spy:
    """Notes what the book held each time records left their arrays for a callback."""

    def __init__(self, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.entered: list[list[str]] = []
        self.reserved: list[bool] = []
        for module in (understudy.privacy.door.private_records, understudy.privacy.dpsgd.engine):
            monkeypatch.setattr(module, "make_batch", self._watching(module.make_batch))

    def _watching(self, real: Any) -> Any:
        def make_batch(*arguments: Any) -> Any:
            self.entered.append([entry["run"] for entry in self.place.book("enter")])
            ledger = (self.place / "runs/out/ledger.jsonl").read_text().splitlines()
            self.reserved.append(json.loads(ledger[-1])["kind"] == "reserve")
            return real(*arguments)

        return make_batch

    @property
    def saw_a_breach(self) -> bool:
        return not all(self.entered) or not all(self.reserved)


@pytest.mark.parametrize("kind", RUNS)
def test_the_entry_is_there_at_every_access(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    drawing.class_folder(workplace / "photos")
    spy = Spy(workplace, monkeypatch)
    workplace.run("synthesize", "photos", *RUNS[kind]).succeeded()
    plan = json.loads((workplace / "runs/out/plan.json").read_text())["plan"]
    assert spy.entered
    assert not spy.saw_a_breach
    assert all(runs == [plan["ident"]] for runs in spy.entered)
    assert workplace.book("enter")[0]["plan"] == plan


def test_the_spy_catches_a_book_that_comes_too_late(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: the entry is made when the run is marked released, not before."""
    drawing.class_folder(workplace / "photos")
    real_enter, real_mark = Book.enter, Book.mark_released
    late: list[tuple[Any, ...]] = []

    def enter(self: Book, *arguments: Any, **named: Any) -> None:
        late.append((self, arguments, named))

    def mark_released(self: Book, run_id: str, digest: str) -> None:
        book, arguments, named = late[0]
        real_enter(book, *arguments, **named)
        real_mark(self, run_id, digest)

    monkeypatch.setattr(Book, "enter", enter)
    monkeypatch.setattr(Book, "mark_released", mark_released)
    spy = Spy(workplace, monkeypatch)
    workplace.run("synthesize", "photos", *RUNS["one-shot"]).succeeded()
    assert spy.saw_a_breach


def test_no_entry_no_access(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing.class_folder(workplace / "photos")

    away = mock.Mock(side_effect=UserError("the account book is away."))
    monkeypatch.setattr(Book, "enter", away)
    spy = Spy(workplace, monkeypatch)
    workplace.run("synthesize", "photos", *RUNS["one-shot"]).refused("account book")
    assert spy.entered == []
    assert not (workplace / "out").exists()


def test_a_run_that_fails_stays_in_the_book(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopping early never lowers the price: the whole plan was entered."""
    drawing.class_folder(workplace / "photos")

    broken = mock.Mock(side_effect=UserError("a callback failed."))
    monkeypatch.setattr(understudy.privacy.door.private_records, "make_batch", broken)
    workplace.run("synthesize", "photos", *RUNS["one-shot"]).refused("callback failed")
    total = workplace.run("spent", "photos", "--json").json()
    assert total["released"] == 0
    assert 0.99 <= total["all_runs"] <= 1.0


def test_the_book_knows_of_a_release_before_it_is_there(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between, a release must not lie about uncounted."""
    drawing.class_folder(workplace / "photos")
    there: list[bool] = []
    real = Book.mark_released

    def mark_released(self: Book, run_id: str, digest: str) -> None:
        there.append((workplace / "out").exists())
        real(self, run_id, digest)

    monkeypatch.setattr(Book, "mark_released", mark_released)
    workplace.run("synthesize", "photos", *RUNS["one-shot"]).succeeded()
    assert there == [False]
    assert len(workplace.book("release")) == 1


def test_a_name_and_a_folder_of_that_name_add_up(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    for epsilon, more in (("5", ()), ("1", ("--dataset", "photos"))):
        words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", epsilon, *more)
        workplace.run(*words, "-o", f"out{epsilon}").succeeded()
    total = workplace.run("spent", "photos", "--json").succeeded().json()
    assert total["runs"] == 2
    assert total["released"] > 5


def test_two_runs_are_two_entries_with_two_plans(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    for name in ("one", "two"):
        words = (*SMALL_MERF, "--epsilon", "1", "-o", name)
        workplace.run("synthesize", "photos", *words).succeeded()
    idents = [entry["plan"]["ident"] for entry in workplace.book("enter")]
    assert len(set(idents)) == 2


def test_the_release_is_in_the_book_before_it_can_be_handed_on(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies between the two must not leave a release that no total holds."""
    drawing.class_folder(workplace / "photos")
    real, there = Book.mark_released, []

    def mark_released(self: Book, run_id: str, digest: str) -> None:
        there.append((workplace / "out").exists())
        real(self, run_id, digest)

    monkeypatch.setattr(Book, "mark_released", mark_released)
    workplace.run("synthesize", "photos", *RUNS["one-shot"]).succeeded()
    assert there == [False]
    assert workplace.run("spent", "photos", "--json").json()["released"] > 0.9
