"""What a DP-SGD step takes on a CPU, beside the same network's plain step.

    python benchmarks/engine_cpu.py [--threads 2]

Promised: at most 1.5 times the plain step, for a convolutional network with group normalisation
and for a U-Net, 64 records of 28x28 a step. A DP step is all of it: gradients of every record,
clipping, noise. The two kinds of step take turns, so that what else runs here slows both. The
ratio is that of processor time, of the quickest of each; that of wall time is given beside it.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from measure import EVIDENCE, REPOSITORY
from torch import nn

from understudy.bench.evidence.evidence import write_measurement
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.work.measuring import peak_gigabytes
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.nets.unet import UNetSpec
from understudy.privacy.door.batch import Batch, Draws, make_batch, with_draws
from understudy.privacy.dpsgd.engine import GradientEngine
from understudy.privacy.dpsgd.loss import BoundLoss, Loss, Models, Values
from understudy.privacy.dpsgd.models import BoundModels
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD

BATCH, SIZE, CLASSES = 64, 28, 10
CLIP = SIGMA = 1.0
CPU = torch.device("cpu")
PROMISED = 1.5
UNET = UNetSpec(1, SIZE, CLASSES, 32, (1, 2), (1, 1), (14,), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--dry", action="store_true", help="print, and write no evidence")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    provenance = Provenance.read(REPOSITORY)
    draws: Draws = {"noise": (1, SIZE, SIZE), "level": ()}
    found = {
        "cnn": measure(cnn(), Classify(), {}, asked.repeats),
        "u-net": measure(unet(), Denoise(), draws, asked.repeats),
    }
    for name, row in found.items():
        print(name, {k: v for k, v in row.items() if not k.endswith("seconds")})
    if asked.dry:
        return
    write_measurement(
        EVIDENCE,
        "engine_cpu",
        provenance=provenance,
        command=f"python benchmarks/engine_cpu.py --threads {asked.threads}",
        config={"batch": BATCH, "size": SIZE, "threads": asked.threads, "u-net": UNET.to_json()},
        seeds=[0],
        seconds={
            f"{name} {kind}": statistics.median(row["seconds"][kind])
            for name, row in found.items()
            for kind in ("dp", "plain")
        },
        peak_gigabytes=peak_gigabytes(),
        result={**found, "promised": PROMISED},
    )


def cnn() -> nn.Module:
    torch.manual_seed(0)
    counts = (1, 32, 32, 64, 64)
    layers: list[nn.Module] = []
    for number, (entering, leaving) in enumerate(itertools.pairwise(counts)):
        layers += [
            nn.Conv2d(entering, leaving, 3, padding=1),
            nn.GroupNorm(8, leaving),
            nn.SiLU(),
        ]
        if number % 2:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(counts[-1] * 49, CLASSES))


def unet() -> nn.Module:
    torch.manual_seed(0)
    network = UNET.build()
    nn.init.normal_(network.leave.weight, std=0.02)
    return network


@dataclass(frozen=True)
class Classify:
    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        scores = models[0](batch.features)
        return nn.functional.cross_entropy(scores, batch.labels, reduction="none")


@dataclass(frozen=True)
class Denoise:
    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        level = torch.exp(1.2 * batch.draws["level"] - 1.2)
        noisy = batch.features + level[:, None, None, None] * batch.draws["noise"]
        said = models[0](noisy, level.log() / 4, batch.labels)
        return (said - batch.features).square().flatten(1).mean(dim=1)


def measure(network: nn.Module, loss: Loss, draws: Draws, repeats: int) -> dict[str, Any]:
    """What either step takes, by the wall clock and of the processor."""
    records = _records()
    mechanism = DPSGD("sgd", 1, rate=0.5, clip=CLIP, sigma=SIGMA)
    engine = GradientEngine(
        BoundModels([network]),
        BoundLoss(loss),
        draws,
        mechanism,
        Speed(backend="expanded"),
        records,
        NoiseSource(),
        BATCH,
    )
    noise, everyone, parameters = NoiseSource(), np.arange(BATCH), engine.bound.parameters

    def private() -> None:
        total = engine.clipped_sum(everyone, {}).total
        noised = total + CLIP * SIGMA * noise.normal(engine.width, CPU, torch.float64)
        pieces = torch.split(noised.float(), [p.numel() for p in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.reshape(parameter.shape)

    def plain() -> None:
        batch = with_draws(make_batch(records, everyone, CPU), draws, noise)
        for parameter in parameters:
            parameter.grad = None
        loss([network], batch, {}).mean().backward()

    private()
    taken: dict[str, list[tuple[float, float]]] = {"dp": [], "plain": []}
    for _ in range(repeats):
        taken["dp"].append(_seconds(private))
        taken["plain"].append(_seconds(plain))
    wall = {kind: [pair[0] for pair in found] for kind, found in taken.items()}
    worked = {kind: [pair[1] for pair in found] for kind, found in taken.items()}
    return {
        "parameters": engine.width,
        "backend": getattr(engine._backend, "name", ""),
        "ratio": min(worked["dp"]) / min(worked["plain"]),
        "ratio_of_wall_time": min(wall["dp"]) / min(wall["plain"]),
        "seconds": wall,
        "processor_seconds": worked,
    }


def _records() -> Records:
    chance = np.random.default_rng(0)
    features = chance.integers(0, 256, (BATCH, 1, SIZE, SIZE), dtype=np.uint8)
    schema = Schema((Attribute("label", tuple(map(str, range(CLASSES)))),), label="label")
    return Records(features, {"label": chance.integers(0, CLASSES, BATCH)}, schema)


def _seconds(work: Callable[[], None]) -> tuple[float, float]:
    """By the wall clock, and of the processor."""
    wall, worked = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - worked


if __name__ == "__main__":
    main()
