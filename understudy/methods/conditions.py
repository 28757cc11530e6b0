"""What synthetic records are to be: given codes of attributes, or all classes evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.data.schema import Attribute
from understudy.errors import UserError, did_you_mean
from understudy.methods.contract import Conditions
from understudy.nets.seeding import stream

Codes = npt.NDArray[np.int64]


def condition_codes(
    n: int, conditions: Conditions | None, attributes: Sequence[Attribute], seed: int
) -> dict[str, Codes]:
    """Codes of `n` samples for each of these attributes: as given, or drawn from the seed.

    Those that are not given come evenly, in random order, and independently of each other.
    """
    given = conditions or {}
    if n < 0:
        raise UserError(f"the number of samples must be at least 0, not {n}.")
    known = {attribute.name: attribute for attribute in attributes}
    for name in given:
        if name not in known:
            raise UserError(f"samples have no attribute {name!r}; {did_you_mean(name, known)}")
    return {
        name: _given(n, given[name], attribute)
        if name in given
        else _drawn(n, attribute, attributes, seed)
        for name, attribute in known.items()
    }


def _drawn(n: int, attribute: Attribute, attributes: Sequence[Attribute], seed: int) -> Codes:
    # The first attribute's stream keeps the name it had when there was only a label.
    purpose = "labels" if attribute == attributes[0] else f"labels of {attribute.name}"
    order = torch.randperm(n, generator=stream(seed, purpose)) % len(attribute.classes)
    return order.numpy()


def _given(n: int, codes: Any, attribute: Attribute) -> Codes:
    found, classes = np.asarray(codes), len(attribute.classes)
    if found.shape != (n,) or not (np.issubdtype(found.dtype, np.integer) or not n):
        raise UserError(
            f"conditions on {attribute.name!r} must be {n} whole numbers, one code per sample."
        )
    if n and not (found.min() >= 0 and found.max() < classes):
        raise UserError(f"conditions on {attribute.name!r} must be codes from 0 to {classes - 1}.")
    return found.astype(np.int64)
