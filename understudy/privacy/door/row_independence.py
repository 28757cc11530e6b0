"""Checks that a callback treats every row of a batch independently of the others.

Clipping bounds the influence of one unit only if the value and gradient of a row do not depend on
the other rows of its batch. These checks run on random rows, before private ones, and refuse a
callback whose rows depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.batch import Batch

TOLERANCE = 1e-5
"""Largest norm of a difference, relative to the longest vector compared."""

_NEARLY_ZERO = 1e-3
"""A parameter with no larger value hides the layers before it from the loss."""


def check_rows(value_of: Callable[[Batch], torch.Tensor], batch: Batch, what: str) -> torch.Tensor:
    """Refuse `value_of` unless each row has the value that it has alone, to `TOLERANCE`.

    Returns the values of the whole batch, whose shape is public.
    """
    agreement = Agreement(what)
    with exact_arithmetic():
        values = _counted(value_of(batch), len(batch), what)
        for index in range(len(batch)):
            agreement.compare(values[index], _counted(value_of(batch.row(index)), 1, what)[0])
    agreement.require()
    return values


def check_others_unmoved(value_of: Callable[[Batch], torch.Tensor], rows: Batch, what: str) -> None:
    """Refuse `value_of` unless rows keep their values, bit for bit, when another row is replaced.

    A tolerance would accept a small dependence between rows. Arithmetic that does not read the
    other rows gives the same bits whatever they hold, so no tolerance is needed.
    """
    before = value_of(rows)
    for changed in {0, len(rows) // 2, len(rows) - 1}:
        others = torch.arange(len(rows), device=before.device) != changed
        if not torch.equal(
            value_of(with_record_replaced(rows, changed, 1))[others], before[others]
        ):
            raise PrivacyError(_mixing(what))


def with_record_replaced(rows: Batch, place: int, many: int) -> Batch:
    """The batch with one record (`many` rows) replaced by its mirrored negative, which gets the
    attributes of the record two places after it."""
    own = slice(place * many, (place + 1) * many)
    features = rows.features.clone()
    features[own] = 1.0 - features[own].flip(-1)
    attributes = {name: column.clone() for name, column in rows.attributes.items()}
    for column in attributes.values():
        column[own] = column.roll(-2 * many, 0)[own]
    return replace(rows, features=features, attributes=attributes)


def check_extremes(value_of: Callable[[Batch], torch.Tensor], rows: Batch, what: str) -> None:
    """Refuse `value_of` if it raises on extreme rows (`extreme_batch`).

    It may return nan or infinity, which clipping turns into zero. Raising on a private record would
    end the run, and the missing release would reveal that record.
    """
    try:
        _counted(value_of(rows), len(rows), what)
    except PrivacyError:
        raise
    except Exception as error:
        raise UserError(
            f"{what} fails on an extreme record (all black, all white, constant or noise), so it "
            f"could fail on a private one: {type(error).__name__}: {error}; let it answer nan "
            "instead."
        ) from error


def check_places(value_of: Callable[[Batch], torch.Tensor], rows: Batch, what: str) -> None:
    """Refuse `value_of` unless a row has the same value, bit for bit, at any place of its batch.

    Exact noise needs this: adding or removing a unit shifts the places of others, and must not
    change the last bits of their values. The first two thirds of `rows` make up a batch; then each
    half of it is evaluated again in the other half's place, in reverse order, beside the last
    third. Arithmetic that depends on a row's place does so for any values: random rows show it.
    """
    third = len(rows) // 3
    here = value_of(rows.rows(0, 2 * third))
    for start in (0, third):
        moved = torch.arange(start, start + third).flip(0)
        new = torch.arange(2 * third, 3 * third)
        order = (new, moved) if start == 0 else (moved, new)
        there = value_of(rows.picked(torch.cat(order)))
        back = there[third:] if start == 0 else there[:third]
        if not torch.equal(back.flip(0), here[start : start + third]):
            raise PrivacyError(
                f"{what} gives a row other last bits in another place of its batch, so exact "
                "noise would not cover what one record changes; use --noise float."
            )


def check_loss(
    loss_of: Callable[[Batch], torch.Tensor],
    parameters: Sequence[torch.Tensor],
    batch: Batch,
    what: str = "the loss",
) -> None:
    """Refuse a loss unless rows have the value and gradient that they have alone (`TOLERANCE`)."""
    values_agree, gradients_agree = Agreement(what), Agreement(what)
    with exact_arithmetic(), torch.enable_grad():
        values = _numbers(loss_of(batch), len(batch), what)
        for index in range(len(batch)):
            alone = _numbers(loss_of(batch.row(index)), 1, what)[0]
            values_agree.compare(values[index], alone)
            gradients_agree.compare(
                gradient_of(values[index], parameters), gradient_of(alone, parameters)
            )
    values_agree.require()
    gradients_agree.require()


def raise_unless_rounding(trial: Callable[[Batch], object], rows: Callable[[int], Batch]) -> None:
    """Raise what a check on random rows raises, unless rounding explains it.

    Where two values almost tie for a maximum, the rounding of a larger batch may choose the other
    one; in a network with pooling this fails one check in a hundred. Such a failure repeats on the
    same rows, and on at most one of three other batches. Rows that do depend on each other fail
    more of these; a callback that mixes rows now and then does not fail twice on the same rows.
    """
    first = rows(0)
    failed = _failure(trial, first)
    if failed is None:
        return
    if _failure(trial, first) is None:
        raise failed
    further = [_failure(trial, rows(number)) for number in (1, 2, 3)]
    if sum(found is not None for found in further) > 1:
        raise failed


def _failure(trial: Callable[[Batch], object], rows: Batch) -> PrivacyError | None:
    try:
        trial(rows)
    except PrivacyError as error:
        return error
    return None


def gradient_of(value: torch.Tensor, over: Sequence[torch.Tensor]) -> torch.Tensor:
    """The gradient of one number as one vector; zero where the number does not depend on it."""
    if not value.requires_grad:
        return torch.cat([torch.zeros_like(p).reshape(-1) for p in over])
    grads = torch.autograd.grad(value, over, retain_graph=True, allow_unused=True)
    filled = [torch.zeros_like(p) if g is None else g for p, g in zip(over, grads, strict=True)]
    return torch.cat([g.reshape(-1) for g in filled])


class Agreement:
    """Compares pairs of vectors: the largest difference, relative to the longest vector."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._difference = 0.0
        self._scale = 0.0

    def compare(self, together: torch.Tensor, alone: torch.Tensor) -> None:
        if together.shape != alone.shape:
            raise PrivacyError(_mixing(self._what))
        if not alone.numel():
            return
        together, alone = together.detach().double(), alone.detach().double()
        if not (torch.isfinite(together).all() and torch.isfinite(alone).all()):
            raise PrivacyError(f"{self._what} is not finite on random data.")
        self._difference = max(self._difference, float((together - alone).norm()))
        self._scale = max(self._scale, float(alone.norm()), float(together.norm()))

    def within(self, tolerance: float) -> bool:
        return self._difference <= tolerance * self._scale

    def require(self) -> None:
        if not self.within(TOLERANCE):
            raise PrivacyError(_mixing(self._what))


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Full float32 on GPUs, without TF32 and cuDNN, whose rounding depends on the batch size and
    would look like mixed rows. Compiled code that expects cuDNN's layouts does not run here."""
    matmul = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.backends.cudnn.flags(enabled=False, allow_tf32=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = matmul


@contextmanager
def zeros_randomised(parameters: Sequence[torch.Tensor]) -> Iterator[None]:
    """Give parameters that are zero, or nearly, random values for a while.

    A layer that starts at zero hides the layers before it from the loss. Rows that depend on each
    other there would pass every check before training, and mix once it has begun.
    """
    zeros = [p for p in parameters if p.numel() and float(p.detach().abs().max()) <= _NEARLY_ZERO]
    kept = [p.detach().clone() for p in zeros]
    try:
        with torch.no_grad():
            for parameter in zeros:
                # About as layers are initialised, so that signals neither vanish nor explode.
                size = 0.1 if parameter.ndim < 2 else 1 / math.sqrt(parameter[0].numel())
                parameter.copy_(torch.randn_like(parameter) * size)
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(zeros, kept, strict=True):
                parameter.copy_(value)


def _numbers(values: torch.Tensor, rows: int, what: str) -> torch.Tensor:
    if _counted(values, rows, what).ndim != 1:
        raise PrivacyError(f"{what} must return one number a row, not {list(values.shape)}.")
    return values


def _counted(values: torch.Tensor, rows: int, what: str) -> torch.Tensor:
    if values.ndim < 1 or len(values) != rows:
        raise PrivacyError(
            f"{what} must return one value a row; it gave {list(values.shape)} for {rows} rows."
        )
    return values


def _mixing(what: str) -> str:
    return (
        f"{what} gives a row another value or gradient in a batch than alone (it mixes the records "
        "of a batch, or draws its own randomness); use only the row and its own batch.draws."
    )
