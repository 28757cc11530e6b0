"""Weights as they are handed on: known again by their digest wherever they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.data.weights_file import WeightsFile, digest_of
from understudy.errors import UserError


def made(path: Path, content: bytes = b"weights") -> WeightsFile:
    path.write_bytes(content)
    return WeightsFile(path, "w", digest_of(path), "drawn by hand", None, "npz")


def test_they_travel_without_their_place_and_come_back(tmp_path: Path) -> None:
    found = made(tmp_path / "here.npz")
    assert str(tmp_path) not in str(found.to_json())
    there = tmp_path / "there.npz"
    there.write_bytes(b"weights")
    assert WeightsFile.from_json(found.to_json(), there) == WeightsFile(
        there, "w", found.sha256, "drawn by hand", None, "npz"
    )


def test_other_weights_do_not_come_back(tmp_path: Path) -> None:
    found, other = made(tmp_path / "here.npz"), made(tmp_path / "there.npz", b"others")
    with pytest.raises(UserError, match=f"{other.path} have SHA-256 {other.sha256}, but w has"):
        WeightsFile.from_json(found.to_json(), other.path)


def test_a_file_that_changed_is_seen(tmp_path: Path) -> None:
    found = made(tmp_path / "here.npz")
    found.check()
    found.path.write_bytes(b"changed")
    with pytest.raises(UserError, match="put the right file there"):
        found.check()
