"""What a private step of a diffusion model takes besides its gradients, part by part.

    python benchmarks/step_parts.py [--device cuda] [--out FOLDER]       (torch and numpy only)
    python benchmarks/step_parts.py --device cuda --steps 60             (whole steps too)

Sizes are those of the presets at epsilon 10: 60,000 images of 28x28, 2,048 of them a step with 4
noises each, a network of 1.3 million parameters. Each part is timed alone, to its end, so on a
GPU parts that overlap with others count in full here. `--steps` takes whole steps through the
door, with optimiser, average and commits, beside the clipped sums alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from copied_tree import tree_digest
from engine import made_up_records
from engine_networks import NETWORKS

from understudy.bench.evidence.provenance import Provenance
from understudy.data.records import Records
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.planning import TRAINING, speed_of
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.nets.per_example.expanded import ExpandedBackend
from understudy.nets.per_example.twins import copy_buffers
from understudy.nets.rng_isolation import isolated_rng
from understudy.privacy.door.batch import make_batch, with_draws
from understudy.privacy.door.door import Door
from understudy.privacy.dpsgd.session import DPSGDSession
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.plan.plan import Budget, Plan

RECORDS, BATCH, NOISES = 60_000, 2048, 4
REPEATS, SKIPPED = 7, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--network", choices=NETWORKS, default="28")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--steps", type=int, default=0, help="whole steps to take, too")
    parser.add_argument("--out", type=Path, help="a folder for what was found")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        stage = Stage(asked, Path(name))
        found: dict[str, Any] = {"parts": {k: _seconds(w, stage) for k, w in parts(stage).items()}}
        if asked.steps:
            found["steps"] = whole_steps(stage, asked.steps)
    for part, seconds in found["parts"].items():
        print(f"{1000 * seconds:9.2f} ms  {part}")
    for kind, seconds in found.get("steps", {}).items():
        print(f"{1000 * seconds:9.2f} ms  {kind}")
    if asked.out is not None:
        told = {"code": tree_digest(), "provenance": Provenance.read().to_json()}
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "step_parts.json").write_text(json.dumps({**found, **told}, indent=1))


class Stage:
    """A denoiser in training, and a run that it trains in; of made-up records."""

    def __init__(self, asked: argparse.Namespace, folder: Path) -> None:
        unet = NETWORKS[asked.network]
        self.config = DiffusionConfig(
            batch=asked.batch,
            multiplicity=NOISES,
            precision="bfloat16" if asked.device == "cuda" else "float32",
            **{n: getattr(unet, n) for n in ("width", "multipliers", "blocks", "attention")},
            patch=unet.patch,
        )
        self.device, self.noise = torch.device(asked.device), NoiseSource()
        self.records: Records = made_up_records(asked.records, unet.channels, unet.image_size)
        spec = self.config.network(self.records.shape, 10)  # type: ignore[arg-type]
        self.training = DenoiserTraining(self.config, spec, 0, self.device)
        rate = asked.batch / asked.records
        planned = DPSGD(TRAINING, 100_000, rate, clip=1.0, sigma=1.0, multiplicity=NOISES)
        plan = Plan(Budget.empirical(), (planned,), 1e9, "none: a measurement", Plan.new_ident())
        journal = Journal.create(folder, plan, {})
        self.door = Door(journal, self.noise, device=self.device)
        handle = self.door.handles({"train": self.records}, {"train": asked.records})["train"]
        speed = speed_of(self.config, spec, self.device)
        training = self.training
        self.session: DPSGDSession = handle.dp_sgd(
            plan, [training.network], training.loss, training.draws, speed, TRAINING
        )
        self.width = sum(p.numel() for p in self.training.network.parameters())
        self.rows = speed.records_at_once(self.width, NOISES, asked.batch, fused=True)

    def step(self) -> None:
        """As `private_training.finish` takes it."""
        training, done = self.training, self.session.steps_done
        self.session.step()
        training.advance(done, 1000, 1e-4)
        self.door.checkpoint(training.snapshot)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def parts(stage: Stage) -> dict[str, Callable[[], object]]:
    """By name, in the order of a step; those of a micro-batch come `batch / rows` times."""
    training, noise, device = stage.training, stage.noise, stage.device
    mechanism, network = stage.session.mechanism, training.network
    chosen = np.arange(stage.rows)
    batch = make_batch(stage.records, chosen, device)
    total = torch.zeros(stage.width, dtype=torch.float64, device=device)
    backend = ExpandedBackend([network])
    parameters = list(network.parameters())
    optimizer = training._fresh_optimizer()

    def leaves() -> None:
        with backend._expansion.over(stage.rows, stage.rows * NOISES, torch.bfloat16):
            pass

    def seclusion() -> None:
        with isolated_rng(noise.callback_stream_seed()):
            pass

    def optimise() -> None:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()

    def commit() -> None:
        stage.door.begin_step(mechanism, 50, lambda: None)
        stage.door.release_step(total, mechanism, 1.0)
        stage.door.checkpoint(training.snapshot)
        stage.door.settle()

    def average() -> None:
        from understudy.nets.averaging import average_into

        average_into(training.average, network, 0.999, 5000)

    return {
        "who joins": lambda: noise.bernoulli(len(stage.records), mechanism.rate),
        f"a micro-batch: {stage.rows} records gathered": lambda: make_batch(
            stage.records, chosen, device
        ),
        "a micro-batch: its draws": lambda: with_draws(
            batch.repeat(NOISES), training.draws, noise, NOISES
        ),
        "a micro-batch: seclusion": seclusion,
        "a micro-batch: the twin follows": lambda: copy_buffers(network, backend._twins[0]),
        "a micro-batch: parameters expanded": leaves,
        "noise drawn and added": lambda: stage.door.noised(total, 1.0),
        "optimiser": optimise,
        "average": average,
        "a block reserved and committed": commit,
    }


def whole_steps(stage: Stage, steps: int) -> dict[str, float]:
    """Seconds of a step through the door, and of the clipped sum of as many records alone."""
    for _ in range(SKIPPED):
        stage.step()
    stage.wait()
    start = time.perf_counter()
    for _ in range(steps):
        stage.step()
    stage.wait()
    whole = (time.perf_counter() - start) / steps
    engine = stage.session._engine
    chosen = np.arange(stage.config.batch)
    start = time.perf_counter()
    for _ in range(steps):
        engine.clipped_sum(chosen, {})
    stage.wait()
    alone = (time.perf_counter() - start) / steps
    return {
        f"a whole step, {engine._rows} records at once": whole,
        f"the clipped sum of {stage.config.batch} records alone": alone,
    }


def _seconds(work: Callable[[], object], stage: Stage) -> float:
    """The median of some, after a first; on a CPU, which others use too, of its own time."""
    clock = time.perf_counter if stage.device.type == "cuda" else time.process_time
    taken = []
    for _ in range(REPEATS + 1):
        stage.wait()
        start = clock()
        work()
        stage.wait()
        taken.append(clock() - start)
    return statistics.median(taken[1:])


if __name__ == "__main__":
    main()
