"""The loss of a DP-SGD session: a frozen dataclass, so that what was checked is what is used."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Protocol

import torch

from understudy.errors import PrivacyError, UserError
from understudy.nets.per_example.base import Models, Values
from understudy.privacy.door.batch import Batch

__all__ = ["BoundLoss", "Loss", "Models", "Values", "form_of", "values_on"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_HOW = "write a frozen dataclass with __call__(models, batch, values) and what it needs as fields"


class Loss(Protocol):
    """Maps models (as callables), a batch of records and the step's values to one value a row.

    A loss is a frozen dataclass whose fields are immutable values, or tensors that need no
    gradient. Networks are passed to `dp_sgd` as models, and what changes from step to step is
    passed to `step` as `values`, which keep their names, shapes and types.
    """

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor: ...


class BoundLoss:
    """A loss with a digest of its fields, which is compared before and after every block of steps.

    Guarantee: every field of an accepted loss is of a type that Python does not let change; if one
    was changed all the same (a tensor in place, say), `require_unchanged` raises. Globals that its
    code reads are not seen here: the trial before every block checks what the loss then computes.
    """

    def __init__(self, loss: Loss, what: str = "loss", taker: str = "dp_sgd") -> None:
        """what, taker: in errors, what is bound and the operation that is given its models."""
        _check_frozen(loss, what, taker)
        self.call, self._what = loss, what
        self._digest = _digest(loss)

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [held for held in _leaves(self.call) if isinstance(held, torch.Tensor)]

    def require_unchanged(self) -> None:
        if _digest(self.call) != self._digest:
            raise PrivacyError(
                f"the {self._what} {type(self.call).__name__} was changed after it was checked; "
                "give what changes from step to step to step(values)."
            )


def values_on(device: torch.device, given: Mapping[str, Any] | None) -> Values:
    """The values of a step, as tensors on the device of the models. They are copies: what a private
    pass writes into one does not reach the method that gave it."""
    found = {n: torch.as_tensor(v, device=device).clone() for n, v in (given or {}).items()}
    for name, value in found.items():
        if value.requires_grad:
            raise UserError(f"value {name!r} needs a gradient; give its .detach() to step(values).")
    return found


def form_of(values: Values) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """The names, shapes and types of values, which stay the same from step to step."""
    return {name: (value.shape, value.dtype) for name, value in values.items()}


def _check_frozen(loss: Any, what: str, taker: str) -> None:
    kind = type(loss)
    if not _is_frozen(kind) or not callable(loss):
        named = getattr(loss, "__name__", kind.__name__)
        raise UserError(f"the {what} {named!r} can change after it was checked; {_HOW}.")
    for name, value in _fields(loss):
        _check_field(f"{what} {kind.__name__}", taker, name, value)


def _check_field(whose: str, taker: str, name: str, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            raise UserError(
                f"field {name!r} of the {whose} is a tensor that needs a gradient, and it is not "
                f"trained; give its .detach(), or its network to {taker} as a model."
            )
    elif _has_fields(value):
        for inner, part in _fields(value):
            _check_field(whose, taker, f"{name}.{inner}".removesuffix("._value_"), part)
    elif isinstance(value, tuple | frozenset) and not hasattr(value, "__dict__"):
        for part in value:
            _check_field(whose, taker, name, part)
    elif not isinstance(value, _PLAIN) or hasattr(value, "__dict__"):  # subclasses may hold more
        raise UserError(
            f"field {name!r} of the {whose} is a {type(value).__name__}, which can change "
            f"after it was checked; give networks to {taker} as models, and what changes from step "
            "to step to step(values)."
        )


def _is_frozen(kind: type) -> bool:
    how = getattr(kind, "__dataclass_params__", None)
    return bool(how and how.frozen)


def _has_fields(value: Any) -> bool:
    return isinstance(value, Enum) or _is_frozen(type(value))


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a frozen dataclass or of an enum's member, and any other attribute of it."""
    names = dict.fromkeys(getattr(value, "__dict__", {}))
    if isinstance(value, Enum):
        del names["__objclass__"]  # the enum itself
    else:
        names |= dict.fromkeys(field.name for field in dataclasses.fields(value))
    yield from ((name, getattr(value, name)) for name in names)


def _leaves(value: Any) -> Iterator[Any]:
    if _has_fields(value):
        for name, part in _fields(value):
            yield name
            yield from _leaves(part)
    elif isinstance(value, tuple | frozenset):
        for part in value if isinstance(value, tuple) else sorted(value, key=repr):
            yield from _leaves(part)
    else:
        yield value


def _digest(loss: Any) -> bytes:
    digest = hashlib.sha256()
    for leaf in _leaves(loss):
        digest.update(f"{type(leaf).__name__}\0".encode())
        digest.update(_bytes_of(leaf) if isinstance(leaf, torch.Tensor) else repr(leaf).encode())
    return digest.digest()


def _bytes_of(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().cpu().contiguous()
    form = f"{tuple(plain.shape)} {plain.dtype} ".encode()
    return form + plain.reshape(-1).view(torch.uint8).numpy().tobytes()
