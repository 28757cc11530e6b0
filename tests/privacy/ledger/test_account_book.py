"""The account book: every plan is counted, once, whoever writes and however it ends."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from understudy.errors import PrivacyError, UserError
from understudy.privacy.accounting.accountants import price
from understudy.privacy.ledger.account_book import Book, default_dataset_name
from understudy.privacy.ledger.chained_file import Addition, ChainedFile
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.plan.events import Event, Gaussian, LocalGaussian
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum, Reveal
from understudy.privacy.plan.plan import Budget, Plan
from understudy.run.spent import totals_in_words

DELTA = 1e-5


def plan_of(sigma: float, part: str = "train") -> Plan:
    mechanism = NoisySum("sum", clip=1.0, sigma=sigma, part=part)
    cost = price(mechanism.events(1), DELTA)
    return Plan(Budget(50.0, DELTA), (mechanism,), cost.epsilon, cost.accountant, Plan.new_ident())


def empirical_plan() -> Plan:
    reveal = Reveal("look", reason="to see")
    return Plan(Budget.empirical(), (reveal,), math.inf, "none", Plan.new_ident())


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book.open("clinic scans", home=tmp_path)


def test_an_empty_book_has_spent_nothing(book: Book) -> None:
    totals = book.total(DELTA)
    assert totals.released.epsilon == totals.all_runs.epsilon == 0.0
    assert totals.runs == ()
    assert not book.path.exists()


def test_a_run_comes_back_as_it_was_entered(book: Book) -> None:
    plan = plan_of(5.0)
    entered = book.enter("run-1", plan, facts={"method": "dp-merf", "count": 60_000})
    (run,) = Book.open("clinic scans", home=book.path.parent.parent).runs()
    assert run == entered
    assert (run.run_id, run.plan, run.purpose) == ("run-1", plan, "release")
    assert run.facts == {"method": "dp-merf", "count": 60_000}
    assert run.released == ()


def test_totals_compose_whole_plans_and_know_what_was_released(book: Book) -> None:
    book.enter("first", plan_of(5.0))
    book.enter("second", plan_of(3.0))
    book.enter("check", plan_of(4.0), purpose="audit")
    book.mark_released("second", "ab" * 32)
    totals = book.total(DELTA)
    assert totals.released == price([Gaussian(3.0)], DELTA)
    everything = price([Gaussian(5.0), Gaussian(3.0), Gaussian(4.0)], DELTA)
    assert totals.all_runs == everything
    assert [run.released for run in totals.runs] == [(), ("ab" * 32,), ()]


def test_disjoint_parts_get_no_discount(book: Book) -> None:
    book.enter("one", plan_of(5.0, part="train"))
    book.enter("two", plan_of(5.0, part="tune"))
    assert book.total(DELTA).all_runs == price([Gaussian(5.0, 2)], DELTA)


def test_a_plan_is_single_use_but_a_run_may_resume(book: Book) -> None:
    plan = plan_of(5.0)
    book.enter("run", plan)
    book.enter("run", plan)
    assert len(book.runs()) == 1
    with pytest.raises(PrivacyError, match="single-use"):
        book.enter("another run", plan)
    with pytest.raises(PrivacyError, match="single-use"):
        book.enter("run", replace(plan, mechanisms=plan_of(9.0).mechanisms))
    with pytest.raises(PrivacyError, match="another plan"):
        book.enter("run", plan_of(5.0))
    with pytest.raises(PrivacyError, match="single-use"):
        book.enter("run", plan, purpose="audit")
    assert book.total(DELTA).all_runs == price([Gaussian(5.0)], DELTA)


def test_an_empirical_run_makes_the_totals_infinite_in_words(book: Book) -> None:
    book.enter("private", plan_of(5.0))
    book.mark_released("private", "ab" * 32)
    book.enter("open", empirical_plan())
    totals = book.total(DELTA)
    assert totals.released.epsilon == pytest.approx(0.7255, abs=1e-3)
    assert math.isinf(totals.all_runs.epsilon)
    words = " ".join(totals_in_words(totals))
    assert "All runs, audits included: epsilon infinite at delta 1e-05." in words
    assert "Run open is empirical" in words
    book.mark_released("open", "cd" * 32)
    assert math.isinf(book.total(DELTA).released.epsilon)


def test_local_runs_are_listed_apart_and_never_composed(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.enter("central", plan_of(5.0))
    book.enter("filter", replace(plan_of(2.0), relation="replace one record"))

    def local_events(self: NoisySum, uses: int) -> tuple[Event, ...]:
        local = self.sigma == 2.0
        event = LocalGaussian(2.0, uses) if local else Gaussian(self.sigma, uses)
        return (event,) if uses else ()

    monkeypatch.setattr(NoisySum, "events", local_events)
    totals = book.total(DELTA)
    assert totals.all_runs == price([Gaussian(5.0)], DELTA)
    ((run, cost),) = totals.local
    assert run.run_id == "filter"
    assert cost.epsilon == pytest.approx(price([Gaussian(2.0)], DELTA).epsilon)
    assert "Run filter is local, apart from central totals" in " ".join(totals_in_words(totals))


def test_marking_a_release(book: Book) -> None:
    book.enter("run", plan_of(5.0))
    book.enter("check", plan_of(5.0), purpose="audit")
    for digest in ("ab", "ab", "cd"):
        book.mark_released("run", digest)
    assert book.run("run").released == ("ab", "cd")
    assert book.total(DELTA).released == price([Gaussian(5.0)], DELTA)
    with pytest.raises(PrivacyError, match="audit"):
        book.mark_released("check", "ef")
    with pytest.raises(UserError, match="'nobody' is not in the account book of 'clinic scans'"):
        book.mark_released("nobody", "ef")


def test_bad_input(book: Book, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="purpose"):
        book.enter("run", plan_of(5.0), purpose="fun")
    with pytest.raises(UserError, match="name"):
        Book.open("  ", home=tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UserError, match="UNDERSTUDY_HOME"):
        Book.open("scans", home=blocked)
    assert book.runs() == ()


def test_books_are_named_for_the_dataset_and_kept_apart(tmp_path: Path) -> None:
    names = ["a/b", "a b", "A-B", "../../etc", "ä", "x" * 500, "a\nb"]
    books = [Book.open(name, home=tmp_path) for name in names]
    assert len({book.path for book in books}) == len(names)
    for book in books:
        assert book.path.parent == tmp_path / "books"
        book.enter("run", plan_of(5.0))
    assert all(len(book.runs()) == 1 for book in books)


def test_another_datasets_book_is_refused(book: Book) -> None:
    book.enter("run", plan_of(5.0))
    stranger = Book("other scans", book.path)
    for use in (stranger.runs, stranger.split_key):
        with pytest.raises(UserError, match=r"belongs to 'clinic scans', not to 'other scans'"):
            use()


def test_home_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "here"))
    assert Book.open("scans").path.parent == tmp_path / "here" / "books"
    monkeypatch.delenv("UNDERSTUDY_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Book.open("scans").path.parent == tmp_path / ".understudy" / "books"


def test_default_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scans").mkdir()
    assert default_dataset_name("scans") == str(tmp_path / "scans")
    assert default_dataset_name("./scans/../scans") == str(tmp_path / "scans")
    assert default_dataset_name("mnist") == "mnist"


def test_only_the_owner_can_read(book: Book) -> None:
    book.enter("run", plan_of(5.0))
    book.split_key()
    for path in book.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(book.path.parent.stat().st_mode) == 0o700


def test_the_split_key_is_drawn_once_and_guarded(book: Book, tmp_path: Path) -> None:
    key = book.split_key()
    assert len(key) == 32
    assert Book.open("clinic scans", home=tmp_path).split_key() == key
    assert Book.open("other scans", home=tmp_path).split_key() != key
    assert key.hex() not in book.path.read_text()
    key_path = book.path.with_suffix(".split-key")
    key_path.write_text("00" * 32)
    with pytest.raises(UserError, match="not the split key that this book began with"):
        book.split_key()
    for changed in ("torn", key.hex().upper(), f"{key.hex()}\n"):
        key_path.write_text(changed)
        with pytest.raises(UserError, match="64 lower-case hex digits and nothing else"):
            book.split_key()
    key_path.unlink()
    with pytest.raises(UserError, match="missing; restore it"):
        book.split_key()


def test_entries_are_on_the_disk_before_enter_returns(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def recording(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    book.enter("run", plan_of(5.0))
    assert book.path.stat().st_size in synced


def test_a_full_disk_leaves_the_book_as_it_was(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    book.enter("run", plan_of(5.0))
    before = book.path.read_bytes()
    pwrite = os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if offset > len(before):
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, data[:10], offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(UserError, match=r"cannot write the account book .*: No space left"):
        book.enter("late", plan_of(5.0))
    assert book.path.read_bytes() == before


def swap_lines(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([lines[0], lines[2], lines[1], *lines[3:]])


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        pytest.param(lambda c: c.replace(b'"sigma":3.0', b'"sigma":9.0'), 3, id="edited"),
        pytest.param(swap_lines, 2, id="swapped"),
        pytest.param(lambda c: b"".join(c.splitlines(keepends=True)[1:]), 1, id="first dropped"),
        pytest.param(lambda c: c + c.splitlines(keepends=True)[-1], 4, id="repeated"),
        pytest.param(lambda c: c.replace(b"\n", b"\nnonsense\n", 1), 2, id="foreign line"),
        pytest.param(lambda c: c.replace(b'"kind":', b'"kind": ', 1), 1, id="respaced"),
        pytest.param(lambda c: b"\n" + c, 1, id="blank line"),
        pytest.param(lambda c: c.replace(b"enter", b"\xff\xfe", 1), 2, id="not text"),
    ],
)
def test_a_damaged_book_names_file_and_line(
    book: Book, damage: Callable[[bytes], bytes], line: int
) -> None:
    book.enter("one", plan_of(5.0))
    book.enter("two", plan_of(3.0))
    book.path.write_bytes(damage(book.path.read_bytes()))
    with pytest.raises(UserError, match=rf"{book.path.name}, line {line}:"):
        book.total(DELTA)
    with pytest.raises(UserError, match=rf"{book.path.name}, line {line}:"):
        book.enter("three", plan_of(5.0))


def test_an_entry_of_an_unknown_kind_is_refused(book: Book) -> None:
    book.enter("one", plan_of(5.0))
    ChainedFile(book.path, "account book").append(lambda _: [("refund", {"run": "one"})])
    with pytest.raises(UserError, match="line 3: unknown kind 'refund'"):
        book.total(DELTA)


def test_a_line_torn_by_a_crash_does_not_count(book: Book) -> None:
    book.enter("one", plan_of(5.0))
    whole = book.path.read_bytes()
    book.enter("two", plan_of(3.0))
    torn = book.path.read_bytes()[:-7]
    assert torn.startswith(whole)
    book.path.write_bytes(torn)
    assert [run.run_id for run in book.runs()] == ["one"]
    book.enter("three", plan_of(4.0))
    assert [run.run_id for run in book.runs()] == ["one", "three"]


WRITER = """
import sys
from pathlib import Path
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.plan.mechanisms import NoisySum
from understudy.privacy.plan.plan import Budget, Plan
book = Book.open("clinic scans", home=Path(sys.argv[1]))
for i in range(25):
    plan = Plan(Budget(50.0, 1e-5), (NoisySum("sum", 1.0, 5.0),), 0.73, "test", Plan.new_ident())
    book.enter(f"{sys.argv[2]}-{i}", plan)
print(book.split_key().hex())
"""


def test_two_processes_write_one_book(book: Book) -> None:
    home = str(book.path.parent.parent)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, home, name], stdout=subprocess.PIPE, text=True
        )
        for name in ("left", "right")
    ]
    keys = {writer.communicate(timeout=60)[0].strip() for writer in writers}
    assert [writer.returncode for writer in writers] == [0, 0]
    assert {run.run_id for run in book.runs()} == {
        f"{name}-{i}" for name in ("left", "right") for i in range(25)
    }
    assert keys == {book.split_key().hex()}


class Unlocked(ChainedFile):
    """A twin that writes without waiting for others."""

    @contextmanager
    def _locked(self, flags: int, lock: int) -> Iterator[int]:
        del lock
        descriptor = os.open(self.path, flags, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def kinds_after_two_writers_meet(make: Callable[[], ChainedFile]) -> list[str]:
    """One writer begins while another is still deciding; what is in the file at the end?"""
    second = threading.Thread(target=lambda: make().append(lambda _: [("second", {})]))

    def decide(entries: Sequence[Entry]) -> list[Addition]:
        del entries
        second.start()
        second.join(timeout=0.3)
        return [("first", {})]

    make().append(decide)
    second.join()
    return [entry.kind for entry in make().read()]


def test_writers_wait_for_one_another(tmp_path: Path) -> None:
    locked = kinds_after_two_writers_meet(lambda: ChainedFile(tmp_path / "a", "book"))
    assert locked == ["first", "second"]
    unlocked = kinds_after_two_writers_meet(lambda: Unlocked(tmp_path / "b", "book"))
    assert unlocked == ["first"]  # the second entry was lost: what the lock prevents


def test_the_book_is_plain_json_lines(book: Book) -> None:
    training = DPSGD("training", steps=10, rate=0.1, clip=1.0, sigma=2.0)
    cost = price(training.events(10), DELTA)
    plan = Plan(Budget(50.0, DELTA), (training,), cost.epsilon, cost.accountant, Plan.new_ident())
    book.enter("run", plan)
    first, second = (json.loads(line) for line in book.path.read_text().splitlines())
    assert first["body"] == {"dataset": "clinic scans", "format": "understudy-book/1"}
    assert second["previous"] == first["hash"]
    assert second["body"]["plan"] == plan.to_json()


def test_an_evaluation_is_noted_once_and_costs_nothing(book: Book) -> None:
    book.enter("one", plan_of(5.0))
    before = book.total(DELTA)
    for protocol in ("standard", "standard", "full"):
        book.mark_evaluated("one", protocol)
    assert book.run("one").evaluated == ("standard", "full")
    after = book.total(DELTA)
    assert (after.all_runs, after.released) == (before.all_runs, before.released)
    with pytest.raises(UserError, match="not in the account book"):
        book.mark_evaluated("two", "standard")


def test_a_look_makes_nothing_and_every_book_is_found(tmp_path: Path) -> None:
    assert Book.look("a", tmp_path / "home").runs() == ()
    assert Book.every(tmp_path / "home") == ()
    assert not (tmp_path / "home").exists()
    for name in ("a", "b"):
        Book.open(name, tmp_path / "home").enter(name, plan_of(5.0))
    assert sorted(book.dataset for book in Book.every(tmp_path / "home")) == ["a", "b"]
    assert [run.run_id for run in Book.look("a", tmp_path / "home").runs()] == ["a"]
