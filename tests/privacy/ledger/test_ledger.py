"""The ledger's chain and story, and what a cut-short write does to them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.privacy.rig import plan
from understudy.errors import PrivacyError, UserError
from understudy.privacy.ledger.entries import Entry, next_entry
from understudy.privacy.ledger.ledger import Ledger, read_ledger
from understudy.privacy.ledger.story import ledger_plan, spent_events, spent_uses
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum

MECHANISMS = (
    NoisySum("sum", clip=1.0, sigma=2.0),
    DPSGD("sgd", steps=10, rate=0.1, clip=1.0, sigma=1.0),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def work(path: Path) -> Ledger:
    """A whole story: a sum, four steps, a void block, one more step, close."""
    ledger = Ledger.create(path, plan(*MECHANISMS), {"method": "a test"})
    ledger.reserve("sum", 1)
    ledger.append(ledger.commit_entry(1))
    ledger.reserve("sgd", 5)
    ledger.append(ledger.commit_entry(4))
    ledger.reserve("sgd", 5)
    ledger.void()
    ledger.reserve("sgd", 1)
    ledger.append(ledger.commit_entry(1))
    ledger.close()
    return ledger


def retell(path: Path, *told: tuple[str, dict[str, Any]]) -> None:
    """Write a ledger whose chain holds, whatever its story."""
    entries: list[Entry] = []
    first = {"plan": plan(*MECHANISMS).to_json(), "run": {}}
    for kind, body in (("plan", first), *told):
        entries.append(next_entry(entries, kind, body))
    path.write_bytes(b"".join(e.line() for e in entries))


def use(kind: str, block: int, name: str, uses: object) -> tuple[str, dict[str, Any]]:
    return kind, {"block": block, "mechanism": name, "uses": uses}


def test_what_was_done_is_read_back(path: Path) -> None:
    written = work(path)
    entries = read_ledger(path)
    assert entries == written.entries
    assert ledger_plan(entries).mechanisms == MECHANISMS
    assert spent_uses(entries) == {"sum": 1, "sgd": 5}
    assert [(e.kind, e.count) for e in spent_events(entries)] == [  # type: ignore[union-attr]
        ("gaussian", 1),
        ("poisson-gaussian", 5),
    ]


def test_lines_are_canonical_and_chained(path: Path) -> None:
    work(path)
    lines = path.read_bytes().splitlines()
    previous = "0" * 64
    for index, line in enumerate(lines):
        data = json.loads(line)
        assert line == json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
        assert (data["index"], data["previous"]) == (index, previous)
        previous = data["hash"]


def test_lines_hold_no_times(path: Path) -> None:
    """Two runs alike write the same ledger but for the plan's ident."""
    one, two = work(path), work(path.with_name("other.jsonl"))
    assert [(e.kind, e.body) for e in one.entries[1:]] == [
        (e.kind, e.body) for e in two.entries[1:]
    ]
    assert not re.search(r"time|date|second", path.read_text())


@pytest.mark.parametrize("kind", ["reserve", "commit", "void", "close"])
def test_an_entry_that_says_more_is_refused(path: Path, kind: str) -> None:
    told = {
        "reserve": [use("reserve", 0, "sgd", 2)],
        "commit": [use("reserve", 0, "sgd", 2), use("commit", 0, "sgd", 2)],
        "void": [use("reserve", 0, "sgd", 2), ("void", {"block": 0})],
        "close": [("close", {})],
    }[kind]
    retell(path, *told)
    read_ledger(path)
    told[-1][1]["seconds"] = 3
    retell(path, *told)
    with pytest.raises(UserError, match=f"line {len(told) + 1}.*more or less"):
        read_ledger(path)


def _drop(lines: list[bytes]) -> None:
    del lines[3]


def _swap(lines: list[bytes]) -> None:
    lines[2], lines[3] = lines[3], lines[2]


def _repeat(lines: list[bytes]) -> None:
    lines.insert(3, lines[3])


def _edit(lines: list[bytes]) -> None:
    lines[3] = lines[3].replace(b'"uses":5', b'"uses":1')


def _space(lines: list[bytes]) -> None:
    lines[3] = lines[3].replace(b",", b", ", 1)


def _cut_the_plan(lines: list[bytes]) -> None:
    del lines[0]


def _rehash_one(lines: list[bytes]) -> None:
    entries: list[Entry] = []
    for line in lines[:4]:
        data = json.loads(line)
        body = {**data["body"], "uses": 1} if len(entries) == 3 else data["body"]
        entries.append(next_entry(entries, data["kind"], body))
    lines[3] = entries[3].line()


@pytest.mark.parametrize("harm", [_drop, _swap, _repeat, _edit, _space, _cut_the_plan, _rehash_one])
def test_a_changed_ledger_is_refused(path: Path, harm: Callable[[list[bytes]], None]) -> None:
    work(path)
    lines = path.read_bytes().splitlines(keepends=True)
    harm(lines)
    path.write_bytes(b"".join(lines))
    with pytest.raises(UserError, match="line"):
        read_ledger(path)


def test_every_flipped_byte_is_caught(path: Path) -> None:
    work(path)
    good = path.read_bytes()
    for place in range(0, len(good), 23):
        bad = bytearray(good)
        bad[place] ^= 1
        path.write_bytes(bytes(bad))
        with pytest.raises(UserError):
            read_ledger(path)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([use("reserve", 0, "sgd", 11)], "beyond its plan"),
        ([use("reserve", 0, "sgd", 0)], "beyond its plan"),
        ([use("reserve", 0, "sgd", -1)], "beyond its plan"),
        ([use("reserve", 0, "sgd", True)], "beyond its plan"),
        ([use("reserve", 0, "sgd", 1.0)], "beyond its plan"),
        ([use("reserve", 0, "other", 1)], "no mechanism"),
        ([use("reserve", 0, ["sgd"], 1)], "no mechanism"),  # type: ignore[arg-type]
        ([use("reserve", 1, "sgd", 1)], "out of order"),
        ([use("reserve", False, "sgd", 1)], "out of order"),
        ([use("reserve", 0, "sgd", 1), use("reserve", 1, "sgd", 1)], "out of order"),
        ([use("commit", 0, "sgd", 1)], "not open"),
        ([("void", {"block": 0})], "not open"),
        ([use("reserve", 0, "sgd", 1), use("commit", 1, "sgd", 1)], "not open"),
        ([use("reserve", 0, "sgd", 1), use("commit", 0, "sgd", 2)], "more uses"),
        ([use("reserve", 0, "sgd", 1), use("commit", 0, "sum", 1)], "another mechanism"),
        ([use("reserve", 0, "sgd", 1), ("close", {})], "closed while"),
        ([("close", {}), use("reserve", 0, "sgd", 1)], "after the ledger was closed"),
        ([("plan", {})], "cannot stand here"),
        ([(["close"], {})], "cannot stand here"),
        (
            [
                *(use("reserve", 0, "sgd", 6), use("commit", 0, "sgd", 6)),
                use("reserve", 1, "sgd", 5),
            ],
            "beyond its plan",
        ),
    ],
)
def test_a_story_that_cannot_have_happened_is_refused(
    path: Path, told: list[tuple[str, dict[str, Any]]], why: str
) -> None:
    retell(path, *told)
    with pytest.raises(UserError, match=why):
        read_ledger(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"[]\n", b"{}\n", b"\xff\n", b"[" * 100_000 + b"\n", b'{"kind":1,"body":2}\n'],
)
def test_nonsense_is_refused_in_a_sentence(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UserError):
        read_ledger(path)


@pytest.mark.parametrize("sigma", [0, -1, "2", None, [], 10**400])
def test_a_plan_with_nonsense_in_it_is_refused(path: Path, sigma: object) -> None:
    body = {"plan": plan(*MECHANISMS).to_json(), "run": {}}
    body["plan"]["mechanisms"][0]["sigma"] = sigma
    path.write_bytes(next_entry([], "plan", body).line())
    with pytest.raises(UserError):
        read_ledger(path)


@pytest.mark.parametrize("of_the_plan", [True, False])
def test_a_field_of_another_version_is_refused_not_skipped(path: Path, of_the_plan: bool) -> None:
    body: dict[str, Any] = {"plan": plan(*MECHANISMS).to_json(), "run": {}}
    path.write_bytes(next_entry([], "plan", body).line())
    assert ledger_plan(read_ledger(path)).mechanisms == MECHANISMS
    (body["plan"] if of_the_plan else body)["version"] = 9
    path.write_bytes(next_entry([], "plan", body).line())
    with pytest.raises(UserError, match=r"'version'.*use the version that wrote it"):
        read_ledger(path)


def test_the_plan_cannot_be_exceeded(path: Path) -> None:
    ledger = Ledger.create(path, plan(*MECHANISMS), {})
    with pytest.raises(PrivacyError, match="beyond the plan"):
        ledger.reserve("sgd", 11)
    ledger.reserve("sgd", 10)
    with pytest.raises(PrivacyError, match="still open"):
        ledger.reserve("sum", 1)
    ledger.append(ledger.commit_entry(10))
    with pytest.raises(PrivacyError, match="beyond the plan"):
        ledger.reserve("sgd", 1)
    with pytest.raises(PrivacyError, match="no mechanism"):
        ledger.reserve("other", 1)


def test_nothing_follows_a_close(path: Path) -> None:
    ledger = work(path)
    with pytest.raises(PrivacyError, match="finished"):
        ledger.reserve("sgd", 1)
    with pytest.raises(UserError, match="closed"):
        ledger.close()


def test_an_open_reservation_counts_as_spent(path: Path) -> None:
    ledger = Ledger.create(path, plan(*MECHANISMS), {})
    ledger.reserve("sgd", 7)
    assert spent_uses(read_ledger(path)) == {"sgd": 7}
    ledger.void()
    assert spent_uses(read_ledger(path)) == {}


def test_a_plan_is_single_use(path: Path) -> None:
    work(path)
    before = path.read_bytes()
    with pytest.raises(PrivacyError, match="single-use"):
        Ledger.create(path, plan(*MECHANISMS), {})
    assert path.read_bytes() == before


def test_a_torn_line_is_dropped_by_open_and_reported_by_read(path: Path) -> None:
    work(path)
    good = path.read_bytes()
    last = good.splitlines(keepends=True)[-1]
    path.write_bytes(good[:-5])
    with pytest.raises(UserError, match="cut off"):
        read_ledger(path)
    assert not Ledger.open(path).closed
    assert path.read_bytes() == good[: -len(last)]


def test_a_plan_without_an_end_is_left_alone(path: Path) -> None:
    Ledger.create(path, plan(*MECHANISMS), {})
    path.write_bytes(path.read_bytes()[:-1])
    before = path.read_bytes()
    with pytest.raises(UserError, match="cut off"):
        Ledger.open(path)
    assert path.read_bytes() == before


def test_a_missing_ledger_is_reported(path: Path) -> None:
    for read in (read_ledger, Ledger.open):
        with pytest.raises(UserError, match="cannot read the ledger"):
            read(path)


def test_a_refused_write_leaves_no_half_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the file stays as it was, and this process writes no more."""
    ledger = Ledger.create(path, plan(*MECHANISMS), {})
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            ledger.reserve("sgd", 1)
    assert path.read_bytes() == before
    assert ledger.in_doubt
    with pytest.raises(PrivacyError, match="resume"):
        ledger.reserve("sgd", 1)
    Ledger.open(path).reserve("sgd", 1)
    assert spent_uses(read_ledger(path)) == {"sgd": 1}


def test_a_line_of_another_writer_is_noticed(path: Path) -> None:
    """Two writers (a forked child, say) would break the chain; the second is refused."""
    ledger = Ledger.create(path, plan(*MECHANISMS), {})
    Ledger.open(path).reserve("sgd", 1)
    after = path.read_bytes()
    with pytest.raises(PrivacyError, match="changed by someone else"):
        ledger.reserve("sgd", 1)
    assert path.read_bytes() == after
    read_ledger(path)
