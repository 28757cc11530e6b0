"""What every gradient backend does, and what they share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from understudy.privacy.door.batch import Batch
from understudy.privacy.sums.gradient_pieces import Pieces

Loss = Callable[[Sequence[Callable[..., Any]], Batch], torch.Tensor]
"""From models (as callables) and a batch to one value a row."""


class GradientBackend(Protocol):
    """Per-record values and gradients of a loss.

    `batch` holds `multiplicity` consecutive rows per record, with draws of their own; a
    record's gradient is that of the mean over its rows. Returns values [records] and
    gradients [records, width], parameters in the order of `trainable`: in float32, or in
    pieces, each in the precision in which it was computed.
    """

    name: str

    def per_record(
        self, loss: Loss, batch: Batch, multiplicity: int
    ) -> tuple[torch.Tensor, torch.Tensor | Pieces]: ...


def trainable(models: Sequence[nn.Module]) -> list[nn.Parameter]:
    """The parameters that training moves, each once, in a fixed order."""
    seen: dict[int, nn.Parameter] = {}
    for model in models:
        for parameter in model.parameters():
            if parameter.requires_grad:
                seen.setdefault(id(parameter), parameter)
    return list(seen.values())


def twin_of(model: nn.Module, *, shares: bool = True) -> nn.Module:
    """A copy for private passes, by which nothing of them stays in the model: how often it was
    called would tell how many records were drawn. shares: its parameters are the model's own."""
    known: dict[int, Any] = {id(p): p for p in model.parameters()} if shares else {}
    for module in model.modules():
        # What a pass left there is not copied with all that it was computed from.
        left = (tensor for tensor in _tensors_in(list(vars(module).values())) if not tensor.is_leaf)
        known |= {id(tensor): tensor.detach().clone() for tensor in left}
    return copy.deepcopy(model, known)


def _tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Those that lie in a container, or in containers inside of it."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(part)


def follow(model: nn.Module, twin: nn.Module, *, mode: bool = True) -> None:
    """Bring a twin's buffers and plain attributes to where the model's are now.

    A method may turn a knob of its model between steps (how far a layer is faded in, eval
    mode): a twin that kept the old value would give the gradients of another model. Copies:
    what a forward pass writes into them must not stay in the model. mode: whether training
    or eval mode is followed too.
    """
    for buffer, copied in zip(model.buffers(), twin.buffers(), strict=True):
        copied.data = buffer.detach().clone()
    torchs_own = vars(nn.Module()).keys() - ({"training"} if mode else set())
    twins = dict(twin.named_modules(remove_duplicate=False))
    for name, module in model.named_modules(remove_duplicate=False):
        held = _computing(twins[name])
        for key, value in vars(module).items():
            if key in torchs_own:
                continue
            if _is_plain(value):
                held.__dict__[key] = copy.deepcopy(value)
            elif isinstance(value, torch.Tensor):
                held.__dict__[key] = value.detach().clone()


def _computing(module: Any) -> Any:
    """The layer itself, where a twin has one of ours in its place."""
    return module.original if getattr(type(module), "stands_for_another", False) else module


def standing(models: Sequence[nn.Module]) -> list[object]:
    """What tells whether models are as they were, but for the values of their tensors: their plain
    attributes and modes, and where their tensors lie."""
    found: list[object] = []
    torchs_own = vars(nn.Module()).keys() - {"training"}
    for model in models:
        for module in model.modules():
            found += [id(module), *map(_place, module.parameters(recurse=False))]
            found += map(_place, module.buffers(recurse=False))
            for key, value in vars(module).items():
                if isinstance(value, torch.Tensor):
                    found.append((key, _place(value)))
                elif key not in torchs_own and _is_plain(value):
                    found.append((key, copy.deepcopy(value)))
    return found


def _is_plain(value: object) -> bool:
    """Whether it is a number, a word, nothing, or a collection of these."""
    if isinstance(value, Mapping):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    form = tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype
    return tensor.data_ptr(), *form, tensor.requires_grad
