"""What the private steps of a diffusion method will be, and roughly take."""

from __future__ import annotations

import math

import torch

from understudy.errors import UserError
from understudy.methods.contract import Facts, Loop, LoopKind
from understudy.methods.diffusion.network import NetworkSpec
from understudy.methods.diffusion.public_training import PublicCourse
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.methods.diffusion.synthesizer import DRAWING
from understudy.nets.sizes import image_shape
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.plan.mechanisms import DPSGD

TRAINING = "denoiser"
BAR = "training the denoiser"

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
    if config.steps:
        facts.rate(config.batch)


def private_loops(config: DiffusionConfig, facts: Facts, samples: int) -> tuple[Loop, ...]:
    """DP-SGD steps, if there are any, and the drawing of so many images."""
    work = _multiplications(config, facts)
    passes = config.batch * config.multiplicity
    drawing = Loop(DRAWING, None, config.drawing.passes, LoopKind.DRAWING, samples, work)
    if not config.steps:
        return (drawing,)
    return Loop(BAR, "steps", config.steps, LoopKind.PRIVATE, passes, work), drawing


def public_loop(config: DiffusionConfig, facts: Facts, course: PublicCourse, setting: str) -> Loop:
    """Ordinary steps on what is public, as many as `setting` says."""
    work = _multiplications(config, facts)
    return Loop(course.purpose, setting, course.steps, LoopKind.PLAIN, course.batch, work)


def gigabytes_of(config: DiffusionConfig, facts: Facts) -> float:
    network = config.network(image_shape(facts.shape, "a diffusion model"), facts.classes)
    return _GIGABYTES_BESIDE + _rows_on_a_cpu(config, network) * network.bytes_a_pass / 1e9


def _multiplications(config: DiffusionConfig, facts: Facts) -> float:
    shape = image_shape(facts.shape, "a diffusion model")
    return config.network(shape, facts.classes).multiplications


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
