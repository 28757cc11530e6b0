"""How long the pieces take that every run is made of, each on one core.

python benchmarks/pieces.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.data.portraits import portraits
from understudy.data.records import Images
from understudy.data.schema import Attribute, Schema
from understudy.data.splits import keyed_split, stratified_split
from understudy.privacy.accounting.accountants import price
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import Gaussian, PoissonGaussian
from understudy.privacy.sums.grid import NOISE_STEPS

PARTS = {"train": 0.7, "tune": 0.1, "test": 0.2}
REPEATS = 3


def main() -> None:
    provenance = Provenance.read(REPOSITORY)
    torch.set_num_threads(1)
    images, faces, source = _images(60_000), portraits(2_000, 32, 0), NoiseSource()
    planned = [PoissonGaussian(0.7, 1 / 300, 6000), Gaussian(20.0)]
    pieces: dict[str, Callable[[], object]] = {
        "2,000,000 normal draws": lambda: source.normal(2_000_000),
        "an exact release of 100,010 coordinates": lambda: source.discrete_gaussian(
            100_010, NOISE_STEPS
        ),
        "the price of 6,000 steps of DP-SGD and a sum": lambda: price(planned, 1e-5),
        "the keyed split of 60,000 images of 28x28": lambda: keyed_split(
            images, PARTS, bytes(range(32))
        ),
        "the stratified split of 2,000 portraits": lambda: stratified_split(faces, PARTS, seed=0),
    }
    seconds = {name: _best(work) for name, work in pieces.items()}
    for name, found in seconds.items():
        print(f"{found:7.3f} s  {name}")
    write_measurement(
        EVIDENCE,
        "pieces",
        provenance=provenance,
        command="python benchmarks/pieces.py",
        config={"threads": 1, "repeats": REPEATS, "time": "of the processor, the least"},
        seeds=[0],
        seconds=seconds,
        peak_gigabytes=None,
        result={},
    )


def _best(work: Callable[[], object]) -> float:
    """The least of some repeats after a first: the machine may be busy."""
    work()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def _images(count: int) -> Images:
    rng = np.random.default_rng(0)
    return Images(
        rng.integers(0, 256, (count, 1, 28, 28), np.uint8),
        {"label": rng.integers(0, 10, count)},
        Schema((Attribute("label", tuple("0123456789")),)),
    )


if __name__ == "__main__":
    main()
