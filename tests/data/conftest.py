"""Folders that several tests of this room load."""

from __future__ import annotations

from pathlib import Path

import pytest

from .samples import encoded, picture, save


@pytest.fixture
def class_folder(tmp_path: Path) -> Path:
    """Two classes of two images each, with the litter that file managers leave."""
    for value, name in enumerate(("dog/2.png", "dog/1.png", "cat/b.png", "cat/a.jpg")):
        kind = "JPEG" if name.endswith("jpg") else "PNG"
        save(tmp_path / "pets" / name, encoded(picture(value), kind))
    save(tmp_path / "pets" / ".DS_Store", b"litter")
    save(tmp_path / "pets" / "cat" / "Thumbs.db", b"litter")
    return tmp_path / "pets"
