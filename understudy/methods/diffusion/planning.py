"""What the private steps of a diffusion method will be, and roughly take."""

from __future__ import annotations

import math

import torch

from understudy.errors import UserError
from understudy.methods.contract import Facts, Forecast
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.nets.sizes import image_shape
from understudy.privacy.mechanisms import DPSGD
from understudy.privacy.speed import Speed

TRAINING = "denoiser"
_MULTIPLICATIONS_A_SECOND = 2e10
_GRADIENT_BYTES = {"cpu": 2**28, "cuda": 2**32}


def planned_steps(config: DiffusionConfig, facts: Facts, sigma: float) -> DPSGD:
    """`steps` steps at rate batch / declared count."""
    rate = config.batch / facts.counts["train"]
    return DPSGD(TRAINING, config.steps, rate, config.clip, sigma, config.multiplicity)


def check_facts(config: DiffusionConfig, facts: Facts, who: str) -> None:
    """Refuse a plan that these declared facts do not allow."""
    shape = image_shape(facts.shape, who)
    if facts.classes < 1:
        raise UserError(f"{who} needs at least one class.")
    config.network(shape, facts.classes)
    count = facts.counts["train"]
    if config.batch > count:
        raise UserError(
            f"setting 'batch' is {config.batch} but only {count} records are declared: too "
            f"few records for the plan; set batch to at most {count}."
        )


def forecast_steps(config: DiffusionConfig, facts: Facts, public_passes: int = 0) -> Forecast:
    """By multiplications of the network: three passes' worth for each training pass."""
    network = config.network(image_shape(facts.shape, "a diffusion model"), facts.classes)
    passes = config.steps * config.batch * config.multiplicity + public_passes
    drawn = facts.counts["train"] * config.drawing.passes
    work = network.multiplications * (3 * passes + drawn)
    return Forecast(work / _MULTIPLICATIONS_A_SECOND, 1.5)


def speed_of(config: DiffusionConfig, size: int, device: torch.device) -> Speed:
    """Micro-batches that hold almost every draw whole, where memory allows."""
    memory = _GRADIENT_BYTES["cuda" if device.type == "cuda" else "cpu"]
    fitting = max(1, memory // (4 * size))
    roomy = math.ceil(config.batch + 4 * math.sqrt(config.batch))
    rows = config.micro_batch or min(fitting, roomy) * config.multiplicity
    return Speed(micro_batch=rows, precision=config.precision)
