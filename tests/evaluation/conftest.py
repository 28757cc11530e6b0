"""Small records and a protocol that runs in a second, shared by the tests of this room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluation.evaluation_cases import SCHEMA
from understudy.data.records import Records
from understudy.evaluation.protocol import Protocol, load_protocol


@pytest.fixture(scope="session")
def digits() -> Records:
    """The 1,797 real digits that ship with scikit-learn, 8x8, in a fixed random order."""
    from sklearn.datasets import load_digits

    data = load_digits()
    pixels = (data.images * (255 / 16)).round().astype(np.uint8)[:, None]
    records = Records(pixels, {"digit": data.target.astype(np.int64)}, SCHEMA)
    return records.select(np.random.default_rng(0).permutation(len(records)))


@pytest.fixture(scope="session")
def train(digits: Records) -> Records:
    return digits.select(np.arange(1437))


@pytest.fixture(scope="session")
def test_part(digits: Records) -> Records:
    return digits.select(np.arange(1437, 1797))


@pytest.fixture(scope="session")
def quick() -> Protocol:
    """Two seeds, a few dozen steps, the MLP alone."""
    reduced = load_protocol("reduced")
    return replace(
        reduced,
        classifiers=("mlp",),
        seeds=2,
        training=replace(reduced.training, epochs=1, least_steps=60),
        fidelity_images=200,
    )
