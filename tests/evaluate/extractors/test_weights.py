"""Finding weights: local files first, downloads checked, clear words offline."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from understudy.errors import UserError
from understudy.evaluate.extractors.weights import find_weights, load_arrays


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder of the variable and the cache folder, both empty."""
    chosen, cache = tmp_path / "chosen", tmp_path / "cache"
    monkeypatch.setenv("UNDERSTUDY_WEIGHTS", str(chosen))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return chosen, cache / "understudy" / "weights"


def test_the_chosen_folder_goes_before_the_cache(folders: tuple[Path, Path]) -> None:
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "a.npz").touch()
    assert find_weights("a.npz") == folders[0] / "a.npz"
    (folders[0] / "a.npz").unlink()
    assert find_weights("a.npz") == folders[1] / "a.npz"


def test_missing_weights_without_an_address(folders: tuple[Path, Path]) -> None:
    del folders
    with pytest.raises(UserError, match=r"a.npz were not found; put the file into \$UNDERSTUDY"):
        find_weights("a.npz")


def test_a_download_is_kept_when_its_hash_is_right(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    served = tmp_path / "served.bin"
    served.write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    path = find_weights("b.bin", served.as_uri(), digest[:8])
    assert path == folders[0] / "b.bin"
    assert path.read_bytes() == b"weights"
    assert [p.name for p in folders[0].iterdir()] == ["b.bin"]


def test_a_download_with_another_hash_is_not_kept(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    served = tmp_path / "served.bin"
    served.write_bytes(b"something else")
    with pytest.raises(UserError, match="does not begin with 12345678; it was not kept"):
        find_weights("b.bin", served.as_uri(), "12345678")
    assert list(folders[0].iterdir()) == []


def test_offline_the_error_says_what_to_put_where(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    address = (tmp_path / "nowhere.bin").as_uri()
    with pytest.raises(UserError, match=r"could not be downloaded .* put it into \$UNDERSTUDY"):
        find_weights("b.bin", address)
    assert list(folders[0].iterdir()) == []


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
