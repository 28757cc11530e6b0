"""A small method with a release and steps, and one process of a team that fits it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import load, save

from tests.privacy.rig import CLASSES, classify, frozen, mlp, plan, records
from tests.privacy.team.team_target import FAST, PLANNED, UNITS, Written
from understudy.data.records import Records
from understudy.errors import RunFailed, UserError
from understudy.methods.contract import Conditions, Context, Facts, PublicInputs
from understudy.methods.info import MethodInfo
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.dpsgd.loss import Models
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import NoisyHistogram
from understudy.privacy.plan.plan import Plan, Spend
from understudy.privacy.team.team import Team
from understudy.progress import Silent
from understudy.run.execute_plan import MethodInputs, execute_plan
from understudy.run.folder import RunFolder, create_run_folder
from understudy.run.team_worker import work_for_leader

COUNTED = NoisyHistogram("counts", bins=len(CLASSES), sigma=1.0)
UNFINISHED, FAILED = 3, 4


@dataclass(frozen=True)
class Weights:
    """What is fitted: nothing can be sampled from it."""

    values: dict[str, torch.Tensor]

    def sample(self, n: int, conditions: Conditions | None = None, seed: int = 0) -> Records:
        del n, conditions, seed
        raise UserError("there is nothing to sample.")

    def save(self, folder: Path) -> None:
        (folder / "weights.safetensors").write_bytes(save(self.values))

    @classmethod
    def load(cls, folder: Path) -> Weights:
        return cls(load((folder / "weights.safetensors").read_bytes()))


BROKEN: list[int] = []
"""The process whose loss fails from now on."""


@frozen
def may_break(models: Models, batch: Batch) -> torch.Tensor:
    if BROKEN:
        raise ZeroDivisionError("on a private record")
    return classify(models, batch, {})


@dataclass(frozen=True)
class Faults:
    """What goes wrong in which process, after how many of its steps."""

    rank: int = -1
    after: int = 0
    how: str = "none"

    def strike(self, rank: int, step: int) -> None:
        if (rank, step) != (self.rank, self.after):
            return
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "callback":
            BROKEN.append(rank)
            return
        os.kill(os.getpid(), signal.SIGINT)


@dataclass(frozen=True)
class CountAndTrain:
    """Counts classes, then trains a classifier whose last bias begins at those counts."""

    info: ClassVar[MethodInfo] = MethodInfo("count-and-train", "", "", "")
    Config: ClassVar[type] = dict
    Output: ClassVar[type] = Weights
    faults: Faults

    def spend(self, config: Any, facts: Facts) -> Spend:
        raise NotImplementedError

    def fit(
        self,
        config: Any,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Weights:
        del config, public
        private, rank = parts["train"], int(os.environ.get("RANK", "0"))
        counts = private.noisy_histogram(lambda batch: batch.labels, len(CLASSES), COUNTED.sigma)
        model = mlp(seed=context.seed)
        with torch.no_grad():
            list(model.parameters())[-1].copy_(counts / private.count)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        state = context.restore()
        if state is not None:
            model.load_state_dict(dict(state.tensors))
        speed = replace(FAST, block_steps=1)
        sgd = private.dp_sgd(plan, [model], may_break, speed=speed, name=PLANNED.name)
        for step in sgd.steps("training"):
            sgd.step()
            optimiser.step()
            self.faults.strike(rank, step)
            context.checkpoint(lambda: State(tensors=dict(model.state_dict())))
        return Weights({name: value.detach() for name, value in model.state_dict().items()})


def fitting(faults: Faults, count: int = UNITS) -> MethodInputs:
    return MethodInputs(
        method=CountAndTrain(faults),
        config={},
        parts={"train": records(count)},
        counts={"train": UNITS},
        device="cpu",
        seed=3,
        samples=0,
        shard_key=b"",
    )


NO_FAULTS = Faults()


def member(folder: Path, faults: Faults = NO_FAULTS, written: bool = True) -> int:
    """One process: alone, or as the environment says. written: who joins is a list, and noise
    a constant."""
    team = Team.join(torch.device("cpu"))
    source = Written(team) if written else NoiseSource()
    try:
        if team.leads:
            execute_plan(begun(folder), fitting(faults), source, Silent(), team)
        else:
            work_for_leader(fitting(faults), team, source)
    except KeyboardInterrupt:
        return UNFINISHED
    except (RunFailed, ZeroDivisionError) as error:
        (folder / f"said-{team.rank}").write_text(str(error))
        return FAILED
    return 0


def odd_one_out(folder: Path) -> int:
    """One process whose records are not the first one's."""
    team = Team.join(torch.device("cpu"))
    if team.leads:
        execute_plan(begun(folder), fitting(NO_FAULTS), NoiseSource(), Silent(), team)
        return 0
    try:
        work_for_leader(fitting(NO_FAULTS, UNITS - 1), team)
    except UserError as error:
        (folder / "said").write_text(str(error))
    return 1


def begun(folder: Path) -> RunFolder:
    run = RunFolder(folder / "run")
    if not run.path.exists():
        create_run_folder(run.path, lambda new: new.write_plan(plan(COUNTED, PLANNED), {}))
    return run


def weights(folder: Path) -> dict[str, np.ndarray]:
    found = Weights.load(folder / "run" / "synthesizer").values
    return {name: value.numpy() for name, value in found.items()}
