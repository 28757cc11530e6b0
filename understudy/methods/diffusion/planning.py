"""What the private steps of a diffusion method will be, and roughly take."""

from __future__ import annotations

import math

import torch

from understudy.errors import UserError
from understudy.methods.contract import Facts, Forecast
from understudy.methods.diffusion.network import NetworkSpec
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.nets.sizes import image_shape
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.plan.mechanisms import DPSGD

TRAINING = "denoiser"
_MULTIPLICATIONS_A_SECOND, _SECONDS_A_PASS = 2e10, 1.8e-4
"""Of two cores. The second is what small networks take beside their multiplications: with it the
digits' preset of dpdm is forecast to take the 250 s that it took (benchmarks/dpdm_digits.py)."""

_FEWEST_RECORDS = 16
_BYTES_AT_ONCE, _GIGABYTES_BESIDE = 1.5e9, 0.9


def planned_steps(config: DiffusionConfig, facts: Facts, sigma: float) -> DPSGD:
    """`steps` steps at rate batch / declared count."""
    rate = facts.rate(config.batch)
    return DPSGD(TRAINING, config.steps, rate, config.clip, sigma, config.multiplicity)


def check_facts(config: DiffusionConfig, facts: Facts, who: str) -> None:
    """Refuse a plan that these declared facts do not allow."""
    shape = image_shape(facts.shape, who)
    if facts.classes < 1:
        raise UserError(f"{who} needs at least one class.")
    config.network(shape, facts.classes)
    facts.rate(config.batch)


def forecast_steps(config: DiffusionConfig, facts: Facts, public_passes: int = 0) -> Forecast:
    """By multiplications of the network, three passes' worth for each training pass, and by
    the number of these."""
    network = config.network(image_shape(facts.shape, "a diffusion model"), facts.classes)
    passes = config.steps * config.batch * config.multiplicity + public_passes
    drawn = facts.counts["train"] * config.drawing.passes
    work = network.multiplications * (3 * passes + drawn)
    seconds = work / _MULTIPLICATIONS_A_SECOND + passes * _SECONDS_A_PASS
    kept = _rows_on_a_cpu(config, network) * network.bytes_a_pass
    return Forecast(seconds, _GIGABYTES_BESIDE + kept / 1e9)


def speed_of(config: DiffusionConfig, network: NetworkSpec, device: torch.device) -> Speed:
    """On a GPU the engine's own micro-batches, as a CUDA graph where it can; on a CPU an eighth of
    the expected draw, or as much as fits in some memory.

    A draw that is slightly larger than whole micro-batches costs one more, padded: small
    ones waste less, and fit a processor's cache.
    """
    on_cpu = device.type != "cuda"
    rows = _rows_on_a_cpu(config, network) if on_cpu else config.micro_batch
    return Speed(micro_batch=rows, precision=config.precision, cuda_graph=not on_cpu)


def _rows_on_a_cpu(config: DiffusionConfig, network: NetworkSpec) -> int:
    """Passes at once, of whole records."""
    if config.micro_batch:
        return config.micro_batch
    many = config.multiplicity
    fitting = max(1, int(_BYTES_AT_ONCE / (network.bytes_a_pass * many)))
    return min(fitting, max(_FEWEST_RECORDS, math.ceil(config.batch / 8))) * many
