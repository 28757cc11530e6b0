"""Folders that several tests of this room load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.samples import encoded, picture, save
from understudy.data import catalog as catalog_module
from understudy.data.catalog import DATA_VARIABLE, catalog_entry


@pytest.fixture
def class_folder(tmp_path: Path) -> Path:
    """Two classes of two images each, with the litter that file managers leave."""
    for value, name in enumerate(("dog/2.png", "dog/1.png", "cat/b.png", "cat/a.jpg")):
        kind = "JPEG" if name.endswith("jpg") else "PNG"
        save(tmp_path / "pets" / name, encoded(picture(value), kind))
    save(tmp_path / "pets" / ".DS_Store", b"litter")
    save(tmp_path / "pets" / "cat" / "Thumbs.db", b"litter")
    return tmp_path / "pets"


@pytest.fixture
def shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Changes what the catalog says of one dataset, so that a handful of images is all of it.

    Returns the folder to write its raw files into.
    """

    def shrink(name: str, **facts: object) -> Path:
        entry = replace(catalog_entry(name), **facts)
        monkeypatch.setattr(catalog_module, "catalog", lambda: {name: entry})
        monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return folder

    return shrink
