"""Networks filled from arrays: misfits and objects are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from understudy.errors import UserError
from understudy.evaluation.extractors.weights import load_arrays


def test_arrays_fill_a_network_and_misfits_are_refused(tmp_path: Path) -> None:
    network = nn.Linear(2, 1)
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    np.savez(good, weight=np.array([[1.0, 2.0]]), bias=np.array([3.0]))
    load_arrays(network, good)
    assert network(torch.ones(1, 2)).item() == 6.0
    np.savez(bad, weight=np.ones((1, 2)))
    with pytest.raises(UserError, match=r"bad.npz do not fit"):
        load_arrays(network, bad)
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(UserError, match=r"text.npz do not fit"):
        load_arrays(network, tmp_path / "text.npz")


def test_an_archive_with_objects_is_refused_unrun(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", weight=np.array([{"a": 1}], dtype=object))
    with pytest.raises(UserError, match="do not fit"):
        load_arrays(nn.Linear(2, 1), tmp_path / "objects.npz")
