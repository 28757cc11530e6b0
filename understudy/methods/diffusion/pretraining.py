"""A denoiser trained on public images: made once, kept, and shared between runs."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from understudy.durable import replace_durably
from understudy.methods.contract import Context
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.public_progress import PublicProgress
from understudy.methods.diffusion.public_records import PublicImages
from understudy.methods.diffusion.public_training import Pick, PublicCourse, train_on_public
from understudy.methods.diffusion.settings import DiffusionConfig

_MODULES = (
    *("denoising", "network", "pretraining"),
    *("public_progress", "public_training", "denoiser_training"),
)
_CODE = (
    *(f"understudy.methods.diffusion.{name}" for name in _MODULES),
    "understudy.nets.unet",
    "understudy.nets.averaging",
    "understudy.nets.cuda_graph",
    "understudy.nets.seeding",
)
"""What the weights depend on besides their data and settings."""

_SMALL = 2**30
"""Bytes of images that are kept on a GPU whole, so that no step waits for them."""

_SETTINGS = (
    *("width", "multipliers", "blocks", "attention", "patch", "deviation", "levels"),
    *("level_values", "label_drop", "flip", "warm_up", "decay", "momentum", "average"),
    *("precision", "output_gain", "level_balance"),
)


def pretrained_weights(
    config: DiffusionConfig,
    course: PublicCourse,
    images: PublicImages,
    cache: Path | None,
    context: Context,
) -> Mapping[str, torch.Tensor]:
    """Averaged weights after the course; found in `cache` if any run made them before.

    Guarantee: a function of public images, settings, code and the public seed alone.
    """
    path = None if cache is None else cache / f"{cache_key(config, course, images, context)}.st"
    under_way = PublicProgress(None if path is None else path.with_suffix(".part"))
    found = None if path is None else _kept(path)
    if found is not None:
        under_way.finish()  # a kill after the last step leaves both
        context.progress.say("the public images have been learnt before; going on from there.")
        return found
    spec = config.network(tuple(images.images.shape[1:]), max(1, images.classes))  # type: ignore[arg-type]
    training = DenoiserTraining(config, spec, context.seed, context.device)
    pick = _picked(images, context.device)
    train_on_public(training, pick, course, context.seed, context.progress, under_way)
    state = training.average.state_dict()
    weights = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_durably(path, save(weights))
        under_way.finish()
    return weights


def cache_key(
    config: DiffusionConfig, course: PublicCourse, images: PublicImages, context: Context
) -> str:
    """What the weights depend on, as one hash: data, settings, seed, code, kind of device."""
    content = {
        "data": images.digest,
        "course": asdict(course),
        "settings": {name: getattr(config, name) for name in _SETTINGS},
        "seed": context.seed,
        "device": context.device.type,
        "code": _code_digest(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _code_digest() -> str:
    digest = hashlib.sha256(torch.__version__.encode())
    for name in _CODE:
        source = importlib.import_module(name).__file__
        assert source is not None
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()


def _kept(path: Path) -> Mapping[str, torch.Tensor] | None:
    """Weights that were kept whole, or None."""
    try:
        return load(path.read_bytes())
    except (FileNotFoundError, SafetensorError):
        return None


def _picked(images: PublicImages, device: torch.device) -> Pick:
    """Images drawn evenly; without public labels all have the one class that is no class."""
    nothing, many = images.classes == 0, len(images.images)
    home = device if images.images.nbytes <= _SMALL else images.images.device
    shown, known = images.images.to(home), images.codes.to(home)

    def pick(rows: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.randint(many, (rows,), generator=random, device=random.device).to(home)
        codes = known[chosen]
        pixels = shown[chosen].float().div(255)
        return pixels, torch.ones_like(codes) if nothing else codes

    return pick
