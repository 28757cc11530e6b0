"""Building ledgers line by line, and rewriting releases as an attacker would.

The ledger format is written here from its documentation, apart from the package's own
code, so that a shared mistake cannot hide.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data.records import Images
from understudy.data.schema import Attribute, Schema
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.plan.mechanisms import EnsembleVotes, Mechanism, NoisySum
from understudy.privacy.plan.plan import Budget, Plan
from understudy.release.build import build_claim, claim_of, price_events, reckon, summarise
from understudy.release.bundle import ReleaseInfo, write_release
from understudy.release.claim import FORMAT, FORMAT_0_1, Claim, LedgerMark, Tuning
from understudy.release.facts import MethodFacts, RunFacts

DELTA = 1e-5
FACTS = RunFacts(
    method=MethodFacts(
        "dp-merf",
        "Harder et al., AISTATS 2021",
        {"features": 1000, "loss": "hinge"},
        ("means are divided by the declared count",),
    ),
    count=1797,
    parts={"train": 1437},
    split="keyed-hash",
)
VERSIONS = {"understudy": "0.1.0", "python": "3.11"}


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


@dataclass
class Story:
    """A ledger in the making: kinds and bodies, chained when written."""

    entries: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def add(self, kind: str, **body: Any) -> Story:
        self.entries.append((kind, body))
        return self

    def block(self, number: int, mechanism: str, uses: int, done: int | None = None) -> Story:
        self.add("reserve", block=number, mechanism=mechanism, uses=uses)
        uses = uses if done is None else done
        return self.add("commit", block=number, mechanism=mechanism, uses=uses)

    def lines(self) -> list[bytes]:
        previous, lines = "0" * 64, []
        for index, (kind, body) in enumerate(self.entries):
            line = {"index": index, "kind": kind, "body": dict(body), "previous": previous}
            previous = hashlib.sha256(canonical(line)).hexdigest()
            lines.append(canonical({**line, "hash": previous}) + b"\n")
        return lines

    def write(self, path: Path) -> Path:
        path.write_bytes(b"".join(self.lines()))
        return path

    def read(self) -> tuple[Entry, ...]:
        """Entries as the reader would give them, without its checks of the story."""
        return tuple(Entry(**json.loads(line)) for line in self.lines())


def make_plan(*mechanisms: Mechanism, epsilon: float | None = None) -> Plan:
    events = [e for m in mechanisms for e in m.events(m.uses)]
    cost = price_events(events, DELTA)
    stated = cost.epsilon if epsilon is None else epsilon
    return Plan(Budget(stated, DELTA), mechanisms, stated, cost.accountant, Plan.new_ident())


def planned(*mechanisms: Mechanism, facts: RunFacts = FACTS, epsilon: float | None = None) -> Story:
    plan = make_plan(*mechanisms, epsilon=epsilon)
    return Story().add("plan", plan=plan.to_json(), run=facts.to_json())


def make_story(facts: RunFacts = FACTS) -> Story:
    """One noisy sum, done and closed."""
    return (
        planned(NoisySum("embedding", 1.0, 4.0), facts=facts).block(0, "embedding", 1).add("close")
    )


def long_story(facts: RunFacts = FACTS) -> Story:
    """A sum and ten votes; one block died and was run again, one stopped early."""
    story = planned(
        NoisySum("embedding", 1.0, 8.0), EnsembleVotes("votes", 5, 10, 20.0), facts=facts
    )
    story.block(0, "embedding", 1)
    story.add("reserve", block=1, mechanism="votes", uses=6).add("void", block=1)
    story.block(2, "votes", 6, done=4).block(3, "votes", 6)
    return story.add("close")


def make_records(
    count: int = 24, channels: int = 1, soft: bool = False, extra: bool = False, seed: int = 0
) -> Images:
    random = np.random.default_rng(seed)
    features = random.integers(0, 256, (count, channels, 8, 6), dtype=np.uint8)
    attributes = [Attribute("digit", ("zero", "one", "two"))]
    columns: dict[str, Any] = {"digit": np.arange(count) % 3}
    if extra:
        attributes.append(Attribute("hand", ("left", "right")))
        columns["hand"] = (np.arange(count) % 2).astype(np.int32)
    if soft:
        attributes.append(Attribute("mood", ("calm", "glad", "sad", "wild")))
        columns["mood"] = random.dirichlet(np.ones(4), count).astype(np.float32)
    return Images(features, columns, Schema(tuple(attributes), label="digit"))


def make_claim(story: Story, records: Images, tuning: Tuning | None = None) -> Claim:
    """What whoever reads this very ledger finds that it supports."""
    entries = story.read()
    tuning = tuning or Tuning(covered=True)
    return claim_of(reckon(entries), entries, tuning, summarise(records), VERSIONS)


def planned_by(story: Story) -> tuple[Plan, RunFacts]:
    """The plan and the facts in a ledger's first line: all of it that a release is made of."""
    body = story.entries[0][1]
    return Plan.from_json(body["plan"]), RunFacts.from_json(body["run"])


def released_claim(story: Story, records: Images, tuning: Tuning | None = None) -> Claim:
    plan, facts = planned_by(story)
    return build_claim(
        plan,
        facts,
        tuning=tuning or Tuning(covered=True),
        records=summarise(records),
        versions=VERSIONS,
    )


def released_story(story: Story) -> Story:
    """What of this ledger is released, written from the format's documentation."""
    told = Story().add("plan", format="understudy-ledger/2", **story.entries[0][1])
    for block, mechanism in enumerate(planned_by(story)[0].mechanisms):
        told.block(block, mechanism.name, mechanism.uses)
    return told.add("close")


def edit_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads(path.read_bytes())
    change(data)
    path.write_bytes((json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())


def rehash(folder: Path) -> str:
    """What an attacker does after a change: a new manifest over everything, and its digest."""
    names = sorted(
        p.relative_to(folder).as_posix()
        for p in folder.rglob("*")
        if p.is_file() and p.name not in ("manifest.sha256", "signature.json")
    )
    manifest = "".join(
        f"{hashlib.sha256((folder / n).read_bytes()).hexdigest()}  {n}\n" for n in names
    ).encode()
    (folder / "manifest.sha256").write_bytes(manifest)
    return hashlib.sha256(manifest).hexdigest()


def restate(folder: Path, change: Callable[[Claim], Claim]) -> str:
    """Rewrite the claim with its words, card, metadata and hashes all to match."""
    old = Claim.from_bytes((folder / "claim.json").read_bytes())
    new = change(old)
    (folder / "claim.json").write_bytes(new.to_bytes())
    card, croissant = folder / "README.md", folder / "croissant.json"
    text = card.read_text()
    before, after = ("".join(f"- {s}\n" for s in c.statement) for c in (old, new))
    assert before in text
    text = text.replace(before, after)
    card.write_text(text)
    edit_json(croissant, lambda d: d.update(description=" ".join(new.statement)))
    return rehash(folder)


def retell(folder: Path, lines: list[bytes]) -> str:
    """Put other ledger lines in place, with the claim's format, its ledger mark and all hashes to
    match."""
    (folder / "ledger.jsonl").write_bytes(b"".join(lines))
    mark = LedgerMark(json.loads(lines[-1])["hash"], len(lines))
    form = FORMAT if b"understudy-ledger/2" in lines[0] else FORMAT_0_1
    return restate(folder, lambda c: replace(c, ledger=mark, format=form))


def release_of(
    story: Story, records: Images, folder: Path, signing_key: Path | None = None
) -> ReleaseInfo:
    """A release written the ordinary way, of a run with this plan and these facts."""
    plan, facts = planned_by(story)
    return write_release(
        folder,
        records=records,
        claim=released_claim(story, records),
        plan=plan,
        facts=facts,
        title="Digits, a stand-in",
        signing_key=signing_key,
    )
