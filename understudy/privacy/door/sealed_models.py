"""The models of shards as one state, for the door's part of a checkpoint and nobody else."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from understudy.errors import PrivacyError
from understudy.privacy.ledger.state import State

Form = Mapping[str, tuple[torch.Size, torch.dtype]]


def form_of_model(model: nn.Module) -> Form:
    """The names, shapes and types of all that a model keeps."""
    return {name: (t.shape, t.dtype) for name, t in model.state_dict().items()}


def models_to_state(models: Sequence[nn.Module | None], about: Mapping[str, object]) -> State:
    """The tensors of every shard's model; a shard without one has none."""
    tensors = {
        f"{shard}/{name}": tensor
        for shard, model in enumerate(models)
        if model is not None
        for name, tensor in model.state_dict().items()
    }
    trained = [shard for shard, model in enumerate(models) if model is not None]
    return State(tensors, {**about, "shards": len(models), "trained": trained})


def models_from_state(
    state: State, like: nn.Module, about: Mapping[str, object]
) -> list[nn.Module | None]:
    """The models again, as copies of `like` with their own tensors."""
    known = {name: state.values.get(name) for name in about}
    if known != dict(about):
        raise PrivacyError(
            f"the checkpoint holds the models of {known}, not of {dict(about)}; a resumed method "
            "creates the same ensembles under the same names."
        )
    models: list[nn.Module | None] = [None] * int(state.values["shards"])
    for shard in state.values["trained"]:
        own = copy.deepcopy(like)
        prefix = f"{shard}/"
        own.load_state_dict(
            {n.removeprefix(prefix): t for n, t in state.tensors.items() if n.startswith(prefix)}
        )
        models[shard] = own.eval()
    return models
