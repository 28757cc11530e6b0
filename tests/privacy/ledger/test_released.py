"""What of a ledger is released: a function of the plan and of declared facts, of nothing else."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.errors import PrivacyError, UserError
from understudy.privacy.accounting.accountants import price
from understudy.privacy.ledger.entries import Entry, next_entry
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.ledger import Ledger, read_ledger
from understudy.privacy.ledger.released import FORMAT, released_ledger
from understudy.privacy.ledger.story import spent_events, spent_uses
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum
from understudy.privacy.plan.plan import Budget, Plan

DELTA = 1e-5
Told = list[dict[str, Any]]
RUN = {"method": "dp-gan", "count": 60}


def plan() -> Plan:
    made = (NoisySum("sum", 1.0, 8.0), DPSGD("sgd", 100, 0.01, 1.0, 2.0))
    cost = price([e for m in made for e in m.events(m.uses)], DELTA)
    return Plan(Budget(10.0, DELTA), made, cost.epsilon, cost.accountant, Plan.new_ident())


def straight_on(ledger: Ledger) -> None:
    for name, uses in (("sum", 1), ("sgd", 100)):
        ledger.reserve(name, uses)
        ledger.append(ledger.commit_entry(uses))


def with_voids_and_short_blocks(ledger: Ledger) -> None:
    """As where a callback that failed on one record tells when that record was drawn."""
    ledger.reserve("sum", 1)
    ledger.void()
    ledger.reserve("sum", 1)
    ledger.append(ledger.commit_entry(1))
    for uses in (50, 7, 30):
        ledger.reserve("sgd", uses)
        ledger.append(ledger.commit_entry(max(1, uses - 3)))


def stopped_early(ledger: Ledger) -> None:
    ledger.reserve("sum", 1)
    ledger.append(ledger.commit_entry(1))


def lines(entries: tuple[Entry, ...]) -> bytes:
    return b"".join(entry.line() for entry in entries)


@pytest.mark.parametrize("story", [straight_on, with_voids_and_short_blocks, stopped_early])
def test_what_happened_shows_nowhere(tmp_path: Path, story: Callable[[Ledger], None]) -> None:
    """Whatever was void, cut short or left out: the same lines, and no hash of the owner's."""
    planned = plan()
    told = lines(released_ledger(planned, RUN))
    own = Ledger.create(tmp_path / "ledger.jsonl", planned, RUN)
    story(own)
    own.close()
    assert lines(released_ledger(own.plan, own.entries[0].body["run"])) == told
    assert not any(entry.hash.encode() in told for entry in own.entries)


def test_it_holds_one_reserve_and_one_commit_of_all_planned_uses() -> None:
    entries = released_ledger(plan(), RUN)
    said = [(e.kind, e.body.get("mechanism"), e.body.get("uses")) for e in entries]
    assert said == [
        ("plan", None, None),
        ("reserve", "sum", 1),
        ("commit", "sum", 1),
        ("reserve", "sgd", 100),
        ("commit", "sgd", 100),
        ("close", None, None),
    ]
    assert entries[0].body["format"] == FORMAT
    assert entries[0].body["run"] == RUN


def test_all_that_was_planned_is_charged() -> None:
    planned = plan()
    entries = released_ledger(planned, RUN)
    assert spent_uses(entries) == {"sum": 1, "sgd": 100}
    assert price(spent_events(entries), DELTA).epsilon == pytest.approx(planned.epsilon, rel=1e-12)


def test_it_reads_back(tmp_path: Path) -> None:
    entries = released_ledger(plan(), RUN)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(lines(entries))
    assert read_ledger(path) == entries


def rewritten(entries: tuple[Entry, ...], change: Callable[[Told], None]) -> bytes:
    """Changed and chained anew, as a forger would."""
    told = json.loads(json.dumps([{"kind": e.kind, "body": dict(e.body)} for e in entries]))
    change(told)
    chain: list[Entry] = []
    for line in told:
        chain.append(next_entry(chain, line["kind"], line["body"]))
    return lines(tuple(chain))


FORGERIES: dict[str, Callable[[Told], None]] = {
    "fewer uses": lambda told: [told[i]["body"].update(uses=90) for i in (3, 4)],
    "a use left out": lambda told: told.__delitem__(slice(3, 5)),
    "not closed": lambda told: told.__delitem__(5),
    "one mechanism twice": lambda told: told.__setitem__(slice(1, 1), told[1:3]),
    "blocks in another order": lambda told: told.__setitem__(slice(1, 5), told[3:5] + told[1:3]),
    "a void": lambda told: told.insert(2, {"kind": "void", "body": {"block": 0}}),
    "something behind the close": lambda told: told.append(told[5]),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES.keys())
def test_anything_else_under_its_format_is_refused(
    tmp_path: Path, change: Callable[[Told], None]
) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(rewritten(released_ledger(plan(), RUN), change))
    with pytest.raises(UserError, match=r"ledger line \d: a released ledger holds its plan"):
        read_ledger(path)


def test_work_cannot_go_on_from_it(tmp_path: Path) -> None:
    """A released ledger is no owner's ledger: nothing can be entered into it."""
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(lines(released_ledger(plan(), RUN)))
    with pytest.raises(PrivacyError, match="the run is finished"):
        Ledger.open(path).reserve("sgd", 1)


def test_a_run_in_which_a_callback_failed_is_never_opened_again(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, plan(), RUN)
    journal.reserve("sum", 1)
    journal.fail()
    journal.release_lock()
    with pytest.raises(PrivacyError, match=r"never resumed or released; .* start a new run"):
        Journal.open(tmp_path)
    with pytest.raises(PrivacyError, match="never resumed or released"):
        Journal.open(tmp_path)
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"sum": 1}


def test_a_full_disk_does_not_undo_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of the ledger cannot be written; the run is over all the same."""
    journal = Journal.create(tmp_path, plan(), RUN)
    journal.reserve("sum", 1)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("understudy.privacy.ledger.ledger.append_durably", full)
    with pytest.raises(OSError, match="No space"):
        journal.fail()
    monkeypatch.undo()
    journal.release_lock()
    with pytest.raises(PrivacyError, match="never resumed or released"):
        Journal.open(tmp_path)
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"sum": 1}
