"""Fitting itself: through the door, saved block by block, resumable.

What runs here needs torch, numpy and safetensors alone, so that a plan which was calibrated
and entered elsewhere can be followed on a machine that has nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError, reading
from understudy.methods.contract import Method, Movable, PublicInputs, Synthesizer
from understudy.privacy.door.door import Door
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.owner_log import OwnerLog
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.plan import Plan
from understudy.privacy.team.records import leading_handles
from understudy.privacy.team.team import Team, records_digest
from understudy.progress import Progress, Silent
from understudy.run.context import LeadingContext, RunContext, choose_device
from understudy.run.folder import RunFolder
from understudy.run.live import LiveSpending

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Fitting:
    """What a method is fitted with, but for its plan and its noise.

    parts, counts: the private records, and the declared number of units of each part.
    shard_key: the owner's secret by which records fall into shards.
    public: what the method may look at freely.
    """

    method: Method
    config: Any
    parts: Mapping[str, Records]
    counts: Mapping[str, int]
    device: str
    seed: int
    shard_key: bytes
    public: PublicInputs = field(default_factory=PublicInputs)

    def tell(self, plan: Plan | None, team: Team) -> Plan:
        """The first process's plan; stops a process that would fit anything else with it.

        Shards are disjoint only where all processes hold the same records in the same order.
        """
        told = team.text("" if plan is None else json.dumps(plan.to_json()))
        team.require_same("settings", repr((self.config, dict(self.counts), self.seed)).encode())
        for name in sorted(self.parts):
            team.require_same(f"records of part {name!r}", records_digest(self.parts[name]))
        return plan or Plan.from_json(json.loads(told))


def follow_plan(
    folder: RunFolder,
    fitting: Fitting,
    noise: NoiseSource,
    progress: Progress,
    team: Team | None = None,
) -> None:
    """Fit under the plan that `folder` holds, and keep the synthesizer; after a kill, go on.

    The plan stands in the ledger before the first noise is drawn. The caller answers for
    its standing in the owner's account book before that. Where `team` has several processes,
    this is called in the first and `run.following.follow_first` in every other.
    """
    team = team or Team()
    plan, run = folder.read_plan()
    if folder.ledger.exists():
        journal = Journal.open(folder.path)
    else:
        journal = Journal.create(folder.path, plan, run)
    try:
        if journal.plan != plan:
            raise PrivacyError(
                f"the ledger in {folder.path} follows another plan than the one entered in the "
                "account book; restore the run folder, or start a new run."
            )
        unfinished = not (journal.ledger.closed and folder.synthesizer.exists())
        if team.number(int(unfinished)):
            _fit(folder, journal, fitting, noise, progress, team)
    finally:
        journal.release_lock()


def _fit(
    folder: RunFolder,
    journal: Journal,
    fitting: Fitting,
    noise: NoiseSource,
    progress: Progress,
    team: Team,
) -> None:
    device = choose_device(fitting.device)
    door = Door(
        journal,
        noise,
        device=device,
        progress=LiveSpending(progress, journal.plan, fitting.counts),
        owner_log=OwnerLog(folder.owner_log),
        shard_key=fitting.shard_key,
    )
    if team.alone:
        context = RunContext(door, progress, device, fitting.seed)
        handles = door.handles(fitting.parts, fitting.counts)
    else:
        fitting.tell(journal.plan, team)
        context = LeadingContext(door, progress, device, fitting.seed, team)
        handles = leading_handles(door, fitting.parts, fitting.counts, team)
    try:
        result = fitting.method.fit(fitting.config, handles, journal.plan, fitting.public, context)
        door.settle()
    finally:
        door.abandon()
    folder.write_whole(folder.synthesizer, result.save)
    folder.write_json("synthesizer.json", {"method": fitting.method.info.name})
    journal.close()


def load_synthesizer(folder: RunFolder, method: Method) -> Synthesizer:
    """The synthesizer that `method` fitted in a run folder."""
    if not folder.synthesizer.exists():
        raise UserError(f"{folder.path} has not been fitted yet; add --resume.")
    # Version 0.1 named the class; its method stands in the run's config all the same.
    fitted_by = folder.read_json("synthesizer.json").get("method", method.info.name)
    if fitted_by != method.info.name:
        raise UserError(f"{folder.path} was fitted by {fitted_by}, not by {method.info.name}.")
    with reading(folder.synthesizer):
        loaded = method.Output.load(folder.synthesizer)  # type: ignore[attr-defined]
    if not isinstance(loaded, Synthesizer):
        raise UserError(f"{folder.path} holds a transformer, which cannot be sampled from.")
    return loaded


def sampling_device(method: Method, asked: str) -> torch.device:
    """Where a fitted run is sampled: as asked if its synthesizer can move, else on the CPU."""
    return choose_device(asked if issubclass(method.Output, Movable) else "cpu")


def sample(
    fitted: RunFolder,
    kept: RunFolder,
    method: Method,
    count: int,
    seed: int,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Records:
    """`count` records of a run that `method` fitted, kept under `kept` (the run itself, or beside
    it).

    Post-processing: the same seed gives the same records on one device, so a resume
    repeats them.
    """
    if kept.samples.exists():
        return kept.load_samples()
    synthesizer = load_synthesizer(fitted, method)
    if isinstance(synthesizer, Movable):
        synthesizer.work_on(choose_device(device), progress or Silent())
    records = synthesizer.sample(count, seed=seed)
    kept.save_samples(records)
    return records
