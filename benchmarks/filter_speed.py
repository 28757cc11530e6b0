"""How fast a new choice is trained and applied, and how large its file is.

    python benchmarks/filter_speed.py

One core, 10,000 latents of width 10 and of width 50 from a seeded mixture: the linear filter with
default settings, and every network whose figures `filters_mnist.py` and `filters_adult.py` quote
(16 hidden units at width 50, for the size of its file).
Promised: training under 4 s, the file under 10 KB, applying to 10,000 latents under 0.2 s.
Processor seconds are what one core takes; wall seconds depend on who else is at work.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filters_adult import NETWORK as ADULT
from filters_mnist import CASES, NETWORK, USERS_SETTINGS
from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.filter import fit_filter
from understudy.filters.filter_file import save_filter
from understudy.filters.game import GameConfig
from understudy.methods.config import config_to_json
from understudy.privacy.noise.source import NoiseSource

COUNT, SEED = 10_000, 0
NARROW, WIDE = 10, 50


@dataclass(frozen=True)
class Encoder:
    """What a filter asks of an encoder; speed does not depend on the rest."""

    latent: int
    radius: float = 1e3
    digest: str = "0" * 64


def main() -> None:
    torch.set_num_threads(1)
    provenance = Provenance.read(REPOSITORY)
    measured(NARROW, GameConfig())  # what torch does once is not a filter's
    result: dict[str, Any] = {}
    for name, (width, config) in settings().items():
        result[name] = measured(width, config)
        print(f"{name}: {result[name]}")
    write_measurement(
        EVIDENCE,
        "filter_speed",
        provenance=provenance,
        command="python benchmarks/filter_speed.py",
        config={"records": COUNT, "threads": 1, "settings": described()},
        seeds=[SEED],
        seconds={name: found["train_wall_s"] for name, found in result.items()},
        peak_gigabytes=None,
        result=result,
    )


def settings() -> dict[str, tuple[int, GameConfig]]:
    """By what they are used for: the latents' width and the game's settings."""
    networks = {
        f"{case}, {form}": task.forms[form][0]
        for case, task in CASES.items()
        for form in task.forms
        if form != "linear"
    }
    networks |= {f"two users, {user}": config for user, config in USERS_SETTINGS.items()}
    networks["adult, network"] = ADULT
    return {
        f"linear, width {NARROW}": (NARROW, GameConfig()),
        **{name: (NARROW, config) for name, config in networks.items()},
        f"linear, width {WIDE}": (WIDE, GameConfig()),
        f"network, width {WIDE}": (WIDE, replace(NETWORK, hidden=16)),
    }


def described() -> dict[str, Any]:
    return {
        name: {"width": width, **config_to_json(config)}
        for name, (width, config) in settings().items()
    }


def measured(width: int, config: GameConfig) -> dict[str, float]:
    data, encoder = latents(width), Encoder(width)
    choice, limit = Choice(("hide",), ("keep",)), Distortion("kl", 3.0)
    fitted, train = timed(lambda: fit_filter(data, choice, limit, encoder, config, seed=SEED))
    noise = NoiseSource()
    fitted.apply(data.select(np.arange(10)), noise)
    _, apply = timed(lambda: fitted.apply(data, noise))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.filter"
        save_filter(path, fitted)
        size = path.stat().st_size
    return {
        "train_wall_s": train[0],
        "train_processor_s": train[1],
        "apply_wall_s": apply[0],
        "apply_processor_s": apply[1],
        "file_bytes": size,
    }


def timed(work: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    wall, processor = time.perf_counter(), time.process_time()
    done = work()
    return done, (
        round(time.perf_counter() - wall, 3),
        round(time.process_time() - processor, 3),
    )


def latents(width: int) -> Records:
    """A mixture of ten Gaussians; two labels of their number, as in MNIST's second case."""
    random = np.random.default_rng(SEED)
    digit = random.integers(0, 10, COUNT)
    centres = 2 * random.normal(size=(10, width))
    features = (centres[digit] + random.normal(size=(COUNT, width))).astype(np.float32)
    two = ("no", "yes")
    schema = Schema((Attribute("hide", two), Attribute("keep", two)))
    return Records(features, {"hide": (digit >= 5).astype(np.int64), "keep": digit % 2}, schema)


if __name__ == "__main__":
    main()
