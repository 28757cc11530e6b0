"""A method executes its plan: through the door, saved block by block, resumable.

What runs here needs torch, numpy and safetensors alone, so that a plan which was calibrated
and entered elsewhere can be followed on a machine that has nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.data.records import Records, ordered_digest
from understudy.errors import PrivacyError
from understudy.methods.contract import Fitted, FixedSet, Method, PublicInputs, RecordMap
from understudy.methods.needs import require_packages
from understudy.privacy.door.door import Door
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.owner_log import OwnerLog
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.plan import Plan
from understudy.privacy.team.doors import LeadingDoor
from understudy.privacy.team.team import Team
from understudy.progress import Progress
from understudy.run.context import LeadingContext, RunContext, choose_device
from understudy.run.folder import RunFolder
from understudy.run.live import LiveSpending


@dataclass(frozen=True)
class MethodInputs:
    """What a method is fitted with, but for its plan and its noise.

    parts, counts: the private records, and the declared number of units of each part.
    samples: how many records the run makes, as declared.
    shard_key: the owner's secret by which records fall into shards.
    public: what the method may look at freely.
    """

    method: Method
    config: Any
    parts: Mapping[str, Records]
    counts: Mapping[str, int]
    device: str
    seed: int
    samples: int
    shard_key: bytes
    public: PublicInputs = field(default_factory=PublicInputs)

    @property
    def mapped_part(self) -> str:
        """The part whose records leave through the map that is fitted."""
        return self.method.info.maps or self.method.info.first_part

    def check(self, result: Fitted) -> None:
        """Refuse what the method did not say beforehand that `fit` returns.

        Guarantee: how many records a fixed set holds is the declared number, so that it tells
        nothing of private records.
        """
        name, maps = self.method.info.name, self.method.info.maps
        if isinstance(result, RecordMap) != (maps is not None):
            raise PrivacyError(
                f"{name} returned {type(result).__name__}; info.maps names a part if, and only if, "
                "fit returns a RecordMap (apply, save, load)."
            )
        if isinstance(result, FixedSet) and len(result.records()) != self.samples:
            raise PrivacyError(
                f"{name} made {len(result.records())} records where its size() said {self.samples}."
            )

    def tell(self, plan: Plan | None, team: Team) -> Plan:
        """The first process's plan; stops a process that would fit anything else with it.

        Shards are disjoint only where all processes hold the same records in the same order.
        """
        told = team.text("" if plan is None else json.dumps(plan.to_json()))
        team.require_same("settings", repr((self.config, dict(self.counts), self.seed)).encode())
        for name in sorted(self.parts):
            team.require_same(f"records of part {name!r}", ordered_digest(self.parts[name]))
        return plan or Plan.from_json(json.loads(told))


def execute_plan(
    folder: RunFolder,
    inputs: MethodInputs,
    noise: NoiseSource,
    progress: Progress,
    team: Team | None = None,
) -> None:
    """Fit under the plan that `folder` holds, and keep what was fitted; after a kill, go on.

    The plan stands in the ledger before the first noise is drawn. The caller answers for
    its standing in the owner's account book before that. Where `team` has several processes,
    this is called in the first and `run.team_worker.work_for_leader` in every other.
    """
    require_packages(inputs.method.info)
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
            _execute(folder, journal, inputs, noise, progress, team)
    finally:
        journal.release_lock()


def _execute(
    folder: RunFolder,
    journal: Journal,
    inputs: MethodInputs,
    noise: NoiseSource,
    progress: Progress,
    team: Team,
) -> None:
    device = choose_device(inputs.device)
    door = (Door if team.alone else LeadingDoor)(
        journal,
        noise,
        device=device,
        progress=LiveSpending(progress, journal.plan, inputs.counts),
        owner_log=OwnerLog(folder.owner_log),
        shard_key=inputs.shard_key,
    )
    if isinstance(door, LeadingDoor):
        inputs.tell(journal.plan, team)
        context: RunContext = LeadingContext(door, progress, device, inputs.seed, team)
        handles = door.lead(team, inputs.parts, inputs.counts)
    else:
        context = RunContext(door, progress, device, inputs.seed)
        handles = door.handles(inputs.parts, inputs.counts)
    try:
        result = inputs.method.fit(inputs.config, handles, journal.plan, inputs.public, context)
        inputs.check(result)
        if isinstance(result, RecordMap):
            folder.save_samples(result.apply(handles[inputs.mapped_part]))
        door.settle()
    finally:
        door.abandon()
    folder.write_whole(folder.synthesizer, result.save)
    folder.write_json("synthesizer.json", {"method": inputs.method.info.name})
    journal.close()
