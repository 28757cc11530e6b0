"""What few sampling steps cost: each sampler at few steps against a thousand.

    python benchmarks/samplers.py [--device cuda] [--steps 1000]

A denoiser is trained on the built-in digits without noise (they are public), then drawn from
in every way with the same seed. Figures: CNN gen2real accuracy, and the Frechet distance to the
real test digits with the random-conv extractor, by the standard protocol's metrics.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.data.load import load
from understudy.data.records import Records
from understudy.evaluation.evaluate import evaluate
from understudy.evaluation.protocol import load_protocol
from understudy.methods.config import resolve_config
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.public_training import PublicCourse, train_on_public
from understudy.methods.diffusion.samplers import SamplerSettings
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer
from understudy.methods.registry import get_method
from understudy.progress import Silent

SEED = 0
WAYS = {
    "heun": (6, 10, 18, 40),
    "ddim": (10, 20, 50, 100),
    "edm": (10, 20, 40, 80),
}
CHURN = {"churn": 10.0, "churn_low": 0.025}
TRAINING_STEPS, BATCH, RATE = 2000, 256, 2e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=TRAINING_STEPS, help="training steps")
    asked = parser.parse_args()
    provenance = Provenance.read(REPOSITORY)
    digits, device = load("digits"), torch.device(asked.device)
    start = time.perf_counter()
    fitted = trained(digits.part("train"), device, asked.steps)
    seconds = {"training": time.perf_counter() - start}
    result: dict[str, Any] = {}
    for name, few in WAYS.items():
        for steps in (*few, 1000):
            churn = CHURN if name == "edm" else {}
            drawing = replace(SamplerSettings(name, steps), **churn)
            start = time.perf_counter()
            made = drawn(fitted, drawing, device, len(digits.part("train")))
            seconds[f"{name} {steps}"] = time.perf_counter() - start
            found = figures(made, digits.part("train"), digits.part("test"))
            result[f"{name} {steps}"] = {"passes an image": drawing.passes, **found}
            print(f"{name} {steps}: {found}", flush=True)
    write_measurement(
        EVIDENCE,
        "samplers",
        provenance=provenance,
        command=f"python benchmarks/samplers.py --device {asked.device} --steps {asked.steps}",
        config={"training steps": asked.steps, "batch": BATCH, "rate": RATE, "churn": CHURN},
        seeds=[SEED],
        seconds=seconds,
        peak_gigabytes=None,
        result=result,
    )


def trained(records: Records, device: torch.device, steps: int) -> DiffusionSynthesizer:
    """A denoiser of the preset's size, without privacy: the question is how to draw from one."""
    config = replace(resolve_config(get_method("dpdm"), "digits", 10.0).config, average=0.995)
    spec = config.network(records.shape, len(records.schema.classes))
    training = DenoiserTraining(config, spec, SEED, device)
    images = torch.from_numpy(np.asarray(records.features)).float().div(255)
    codes = torch.from_numpy(np.asarray(records.labels).astype(np.int64))

    def pick(rows: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.randint(len(images), (rows,), generator=random)
        return images[chosen], codes[chosen]

    course = PublicCourse("training a denoiser", steps, BATCH, RATE)
    train_on_public(training, pick, course, SEED, Silent())
    return DiffusionSynthesizer(
        spec, training.average, config.preconditioning, config.drawing, records.schema
    )


def drawn(
    fitted: DiffusionSynthesizer, drawing: SamplerSettings, device: torch.device, count: int
) -> Records:
    way = fitted.with_drawing(drawing)
    way.work_on(device, Silent())
    return way.sample(count, seed=SEED)


def figures(made: Records, train: Records, test: Records) -> dict[str, float | None]:
    """Accuracy and distance of the standard protocol, which is left as it is otherwise."""
    protocol = replace(
        load_protocol("standard"), metrics=("gen2real", "frechet-distance"), classifiers=("cnn",)
    )
    rows = evaluate(made, train, test, protocol, device="cpu").rows
    return {f"{row.metric} {row.variant}".strip(): row.value for row in rows}


if __name__ == "__main__":
    main()
