"""The shelf of weights: a file counts as here by its content, not by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.data.weights import weights_entry
from understudy.data.weights_file import digest_of
from understudy.run import weights_shelf
from understudy.run.weights_shelf import Shelf, look_at_shelf


def shelf_with(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setenv("UNDERSTUDY_WEIGHTS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return look_at_shelf()


def test_an_empty_shelf_says_how_to_come_by_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = shelf_with(tmp_path, monkeypatch)
    assert (shelf.here, shelf.other) == (frozenset(), frozenset())
    said = " ".join(shelf.text().split())
    assert "downloaded when it is needed" in said
    assert weights_entry("taef2").get in said


def test_another_file_of_that_name_is_not_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taef2.safetensors").write_bytes(b"something else")
    shelf = shelf_with(tmp_path, monkeypatch)
    assert (shelf.here, shelf.other) == (frozenset(), {"taef2"})
    assert "another SHA-256" in " ".join(shelf.text().split())
    row = next(row for row in shelf.to_json()["rows"] if row["name"] == "taef2")
    assert row["here"] is False


def test_the_right_file_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "taef2.safetensors"
    path.write_bytes(b"as if it were they")
    right = weights_entry("taef2").sha256
    monkeypatch.setattr(
        weights_shelf, "digest_of", lambda place: right if place == path else digest_of(place)
    )
    assert shelf_with(tmp_path, monkeypatch).here == {"taef2"}
