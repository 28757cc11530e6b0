"""The models that a session trains or reads.

Private passes run through twins: deep copies that share the model's parameters and nothing else. So
a pass leaves nothing in the model for a method to read, and a method's changes to its model, other
than to parameters and buffers, reach no private pass. (Opacus puts hooks on the model itself.)
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from understudy.errors import PrivacyError, UserError
from understudy.nets.per_example.twins import trainable

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
Fingerprint = dict[str, object]


class BoundModels:
    """The models of a session, with a fingerprint of everything in them that must not change.

    `parameters` are those that need a gradient when they are bound: a session trains these and
    reads all others. Between steps a method may change the values of parameters and buffers, and
    nothing else: a mode, an attribute of a plain type, a layer or a hook that differs at the
    beginning or the end of a block is refused by name.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self.models = list(models)
        self.parameters = trainable(models)
        if not self.parameters:
            raise UserError("the models given to dp_sgd have no trainable parameter.")
        if len(self.parameters) != sum(len(trainable([model])) for model in models):
            raise PrivacyError("two models share a parameter; give it to one of them only.")
        refuse_mixing_layers(models)
        self._fingerprints = [_fingerprint(model) for model in models]

    @property
    def device(self) -> torch.device:
        return self.parameters[0].device

    @property
    def width(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters)

    def require_unchanged(self) -> None:
        """Raise if anything but the values of parameters and buffers changed since binding."""
        for number, (model, before) in enumerate(zip(self.models, self._fingerprints, strict=True)):
            after = _fingerprint(model)
            for name in before.keys() | after.keys():
                if before.get(name) != after.get(name):
                    raise PrivacyError(
                        f"{name} of model {number} changed after dp_sgd bound the model; make what "
                        "changes a buffer, or give it to step(values)."
                    )


def refuse_mixing_layers(models: Sequence[nn.Module]) -> None:
    """Refuse by name the layers that keep or share statistics of their input rows, as Opacus's
    `ModuleValidator` does."""
    for model in models:
        for name, module in model.named_modules():
            kind = type(module).__name__
            normal = isinstance(module, nn.modules.batchnorm._BatchNorm)
            if normal and (module.training or trainable([module])):
                raise PrivacyError(
                    f"layer {name!r} ({kind}) mixes the records of a batch; use GroupNorm instead, "
                    "or, in a model that is only read, eval()."
                )
            instance = isinstance(module, nn.modules.instancenorm._InstanceNorm)
            if instance and module.track_running_stats and module.training:
                raise PrivacyError(
                    f"layer {name!r} ({kind}) keeps statistics of the records it sees; "
                    "set track_running_stats=False."
                )


def _fingerprint(model: nn.Module) -> Fingerprint:
    """What must stay as it was when the model was bound, by names that an error can print."""
    found: Fingerprint = {}
    for path, module in model.named_modules(remove_duplicate=False):
        where = f"layer {path!r}" if path else "the top layer"
        found[f"the type of {where}"] = type(module)
        for hooks in _HOOKS:
            found[f"{hooks} of {where}"] = tuple(map(id, getattr(module, hooks).values()))
        for name, parameter in module.named_parameters(recurse=False):
            found[f"parameter {name!r} of {where}"] = id(parameter), parameter.requires_grad
        for name, buffer in module.named_buffers(recurse=False):
            found[f"the form of buffer {name!r} of {where}"] = buffer.shape, buffer.dtype
        for name, value in vars(module).items():
            if name not in _TORCHS_OWN and (mark := _fingerprint_of(value)) is not None:
                found[f"attribute {name!r} of {where}"] = mark
    return found


_TORCHS_OWN = frozenset(vars(nn.Module())) - {"training"}


def _fingerprint_of(value: object) -> object:
    """A copy of an attribute of plain type; of a tensor its address and the number of writes to it.

    None for anything else: the trial before every block checks what the model then computes.
    """
    if isinstance(value, torch.Tensor):
        return value.data_ptr(), tuple(value.shape), value._version
    return copy.deepcopy(("plain", value)) if _is_plain(value) else None


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
