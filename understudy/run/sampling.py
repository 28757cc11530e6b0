"""Sampling from what a run fitted: post-processing, which needs no private record.

As `execute_plan`, this needs torch, numpy and safetensors alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.data.records import Records
from understudy.errors import UserError, reading
from understudy.methods.contract import Fitted, FixedSet, Method, Movable, Sampler
from understudy.progress import Progress, Silent
from understudy.run.context import choose_device
from understudy.run.folder import RunFolder

if TYPE_CHECKING:
    import torch


def load_fitted(folder: RunFolder, method: Method) -> Fitted:
    """What `method` fitted in a run folder."""
    if not folder.synthesizer.exists():
        raise UserError(f"{folder.path} has not been fitted yet; add --resume.")
    # Version 0.1 named the class; its method stands in the run's config all the same.
    fitted_by = folder.read_json("synthesizer.json").get("method", method.info.name)
    if fitted_by != method.info.name:
        raise UserError(f"{folder.path} was fitted by {fitted_by}, not by {method.info.name}.")
    with reading(folder.synthesizer):
        loaded: Fitted = method.Output.load(folder.synthesizer)  # type: ignore[attr-defined]
    return loaded


def sampling_device(method: Method, asked: str) -> torch.device:
    """Where a fitted run is sampled: as asked if its sampler can move, else on the CPU."""
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
    """The records of a run that `method` fitted, kept under `kept` (the run itself, or beside it).

    Post-processing: the same seed gives the same records on one device, so a resume
    repeats them. A sampler makes `count`; a fixed set, and what a record map gave while the
    ledger was open, are what they are.
    """
    if kept.samples.exists():
        return kept.load_samples()
    records = _made(fitted, method, count, seed, choose_device(device), progress or Silent())
    kept.save_samples(records)
    return records


def _made(
    folder: RunFolder,
    method: Method,
    count: int,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> Records:
    if method.info.maps is not None:
        return folder.load_samples()
    fitted = load_fitted(folder, method)
    if isinstance(fitted, FixedSet):
        return fitted.records()
    if not isinstance(fitted, Sampler):
        raise UserError(f"{method.info.name} fitted nothing that makes records.")
    if isinstance(fitted, Movable):
        fitted.work_on(device, progress)
    return fitted.sample(count, seed=seed)
