"""Records and cases that several tests of this room build."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.evaluation.case import Case
from understudy.evaluation.protocol import Protocol
from understudy.progress import Silent

SCHEMA = Schema((Attribute("digit", tuple("0123456789")),), label="digit")


def make_case(
    synthetic: Records, train: Records | None, test: Records, protocol: Protocol, seed: int = 0
) -> Case:
    return Case(
        synthetic,
        train,
        test,
        protocol,
        device=torch.device("cpu"),
        seed=seed,
        progress=Silent(),
    )


def with_noise(records: Records, scale: float) -> Records:
    """The same records with Gaussian noise of this scale on the pixels."""
    noise = np.random.default_rng(1).normal(0, scale, records.features.shape)
    return replace(records, features=np.clip(records.features + noise, 0, 255).astype(np.uint8))
