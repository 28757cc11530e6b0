from __future__ import annotations

import hashlib

import numpy as np
from sklearn.datasets import load_digits

from understudy.data.catalog import catalog_entry
from understudy.data.digits import digit_parts, digits


def test_the_digits_are_those_of_scikit_learn_scaled_to_bytes():
    records, source = digits(), load_digits()
    assert records.features.shape == (1797, 1, 8, 8)
    assert records.features.dtype == np.uint8
    assert (records.labels == source.target).all()
    assert (np.rint(records.features[:, 0] / 255 * 16) == source.images).all()
    assert records.features.max() == 255


def test_parts_are_fixed_disjoint_and_proportional():
    parts = digit_parts()
    facts = catalog_entry("digits").parts
    assert {name: len(part) for name, part in parts.items()} == {
        name: known.count for name, known in facts.items()
    }
    whole = np.bincount(digits().labels)
    assert np.abs(np.bincount(parts["test"].labels) - 0.2 * whole).max() < 1.0
    # If this changes, every figure published on `digits` changes with it.
    digest = hashlib.sha256(parts["test"].features.tobytes()).hexdigest()
    assert digest == "21fe686014b2b1c8da479a36d6962e144986e89c820562d2abd68fed932e9058"
