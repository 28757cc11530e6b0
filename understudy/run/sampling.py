"""Sampling from what a run fitted: post-processing, which needs no private record.

As `execute_plan`, this needs torch, numpy and safetensors alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.data.records import Records
from understudy.errors import UserError, reading
from understudy.methods.contract import Method, Movable, Synthesizer
from understudy.progress import Progress, Silent
from understudy.run.context import choose_device
from understudy.run.folder import RunFolder

if TYPE_CHECKING:
    import torch


def load_synthesizer(folder: RunFolder, method: Method) -> Synthesizer:
    """The synthesizer that `method` fitted in a run folder."""
    if not folder.synthesizer.exists():
        raise UserError(f"{folder.path} has not been fitted yet; add --resume.")
    # Version 0.1 named the class; its method stands in the run's config all the same.
    fitted_by = folder.read_json("synthesizer.json").get("method", method.info.name)
    if fitted_by != method.info.name:
        raise UserError(f"{folder.path} was fitted by {fitted_by}, not by {method.info.name}.")
    with reading(folder.synthesizer):
        loaded = method.Output.load(folder.synthesizer)  # type: ignore[attr-defined]
    if not isinstance(loaded, Synthesizer):
        raise UserError(f"{folder.path} holds a transformer, which cannot be sampled from.")
    return loaded


def sampling_device(method: Method, asked: str) -> torch.device:
    """Where a fitted run is sampled: as asked if its synthesizer can move, else on the CPU."""
    return choose_device(asked if issubclass(method.Output, Movable) else "cpu")


def sample(
    fitted: RunFolder,
    kept: RunFolder,
    method: Method,
    count: int,
    seed: int,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Records:
    """`count` records of a run that `method` fitted, kept under `kept` (the run itself, or beside
    it).

    Post-processing: the same seed gives the same records on one device, so a resume
    repeats them.
    """
    if kept.samples.exists():
        return kept.load_samples()
    synthesizer = load_synthesizer(fitted, method)
    if isinstance(synthesizer, Movable):
        synthesizer.work_on(choose_device(device), progress or Silent())
    records = synthesizer.sample(count, seed=seed)
    kept.save_samples(records)
    return records
