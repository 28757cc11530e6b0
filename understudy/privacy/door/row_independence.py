"""The check that a callback treats every row by itself.

Clipping bounds one unit's influence only if the value and gradient of a row do not
depend on the other rows of its batch. Before first use, on random data, each row is
compared with itself alone; a callback that mixes rows is refused.
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
"""Largest difference, relative to the longest vector compared: what clipping looks at."""


_ASLEEP = 1e-3
"""A parameter without any larger value shows too little of what lies behind it."""


def check_rows(value_of: Callable[[Batch], torch.Tensor], batch: Batch, what: str) -> torch.Tensor:
    """Refuse `value_of` unless each row's value equals that of the row alone.

    Returns the values of the whole batch, whose form is that of any batch.
    """
    agreement = Agreement(what)
    with exact_arithmetic():
        values = _counted(value_of(batch), len(batch), what)
        for index in range(len(batch)):
            agreement.compare(values[index], _counted(value_of(batch.row(index)), 1, what)[0])
    agreement.require()
    return values


def check_others_unmoved(value_of: Callable[[Batch], torch.Tensor], rows: Batch, what: str) -> None:
    """Refuse `value_of` unless every row keeps its value, to the last bit, when another changes.

    A relative tolerance would let through what mixes rows a little. Arithmetic that does not look
    at other rows gives the same bits whatever these hold, so this allows nothing at all.
    """
    before = value_of(rows)
    for changed in {0, len(rows) // 2, len(rows) - 1}:
        others = torch.arange(len(rows), device=before.device) != changed
        if not torch.equal(
            value_of(with_record_replaced(rows, changed, 1))[others], before[others]
        ):
            raise PrivacyError(_mixing(what))


def with_record_replaced(rows: Batch, place: int, many: int) -> Batch:
    """The same batch, but that one record (`many` rows) is another one: mirrored, in negative, with
    the attributes of the next but one."""
    own = slice(place * many, (place + 1) * many)
    features = rows.features.clone()
    features[own] = 1.0 - features[own].flip(-1)
    attributes = {name: column.clone() for name, column in rows.attributes.items()}
    for column in attributes.values():
        column[own] = column.roll(-2 * many, 0)[own]
    return replace(rows, features=features, attributes=attributes)


def check_extremes(value_of: Callable[[Batch], torch.Tensor], rows: Batch, what: str) -> None:
    """Refuse `value_of` if it fails on rows at the ends of what a record can be.

    It may answer what is not finite, which counts as zero. Where it raised on a private record the
    run would be over, and its absence would tell of that record.
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
    """Refuse `value_of` unless a row has the same value, to the last bit, wherever it stands.

    For exact noise: there a unit that comes or goes must not move the last bits of others
    by making them change places. The two thirds of `rows` that make up a batch are
    evaluated as they stand; then each half of it in the other half's place, in reverse
    order, beside rows that were not there before. Arithmetic that depends on place or
    company does so whatever the values are, so random rows show it.
    """
    third = len(rows) // 3
    here = value_of(rows.rows(0, 2 * third))
    for start in (0, third):
        moved = torch.arange(start, start + third).flip(0)
        strangers = torch.arange(2 * third, 3 * third)
        order = (strangers, moved) if start == 0 else (moved, strangers)
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
    """Refuse a loss unless each row's value and gradient equal those of the row alone."""
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
    """Raise what a trial on random rows raises, unless it was rounding.

    Where two values almost tie for a maximum, rounding in company may take the other one, and
    that looks like mixing, once in a hundred trials of a network with pooling. It does so again
    on the same rows, and hardly on others: at most on one of three further batches. What mixes
    rows fails these too, and what mixes them now and then does not fail twice in the same way.
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
    """Collects comparisons and judges the largest difference by the longest vector."""

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
    """Full float32 on GPUs: TF32 rounds by batch size, and would look like mixing. Without cuDNN
    too, which takes another algorithm for another batch size; code that was compiled for its
    layouts does not run here."""
    matmul = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.backends.cudnn.flags(enabled=False, allow_tf32=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = matmul


@contextmanager
def zeros_randomised(parameters: Sequence[torch.Tensor]) -> Iterator[None]:
    """Parameters that are zero, or nearly, at random values for a while.

    Layers that begin at zero, one behind another, cut what lies between them off from the
    loss. What mixes rows there would pass every check before training and show after it.
    """
    asleep = [p for p in parameters if p.numel() and float(p.detach().abs().max()) <= _ASLEEP]
    kept = [p.detach().clone() for p in asleep]
    try:
        with torch.no_grad():
            for parameter in asleep:
                parameter.copy_(torch.randn_like(parameter) * _usual_size(parameter))
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(asleep, kept, strict=True):
                parameter.copy_(value)


def _usual_size(parameter: torch.Tensor) -> float:
    """About what layers begin with: signals neither vanish nor grow with depth."""
    if parameter.ndim < 2:
        return 0.1
    return 1 / math.sqrt(parameter[0].numel())


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
        f"{what} gives a row another value or gradient in company than alone (it mixes the records "
        "of a batch, or draws its own randomness); use only the row and its own batch.draws."
    )
