"""A folder of class folders: `photos/cat/1.png` is an image whose label is `cat`.

The classes are the folders, also those that are empty: which classes there are must not depend on
the one image that a folder may hold.
"""

from __future__ import annotations

from pathlib import Path

from understudy.data.images import SUFFIXES, Reading
from understudy.data.sources.raw import (
    Column,
    RawPart,
    by_part,
    files_below,
    is_image_file,
    read_images,
    visible,
)
from understudy.errors import UserError

LABEL = "label"


def load_class_folder(folder: Path, reading: Reading) -> dict[str, RawPart]:
    """Every image below `folder`; its label is the class folder it lies in."""
    return by_part(folder, _load_part, reading)


def _load_part(folder: Path, reading: Reading) -> RawPart:
    paths: list[Path] = []
    labels: list[str] = []
    class_folders = _class_folders(folder)
    for class_folder in class_folders:
        found = _images_below(class_folder)
        paths.extend(found)
        labels.extend([class_folder.name] * len(found))
    if not paths:
        raise UserError(f"the class folders in {folder} hold no image; put in at least one.")
    pixels = read_images(paths, reading, folder)
    column = Column(labels, named=tuple(class_folder.name for class_folder in class_folders))
    nested = any(path.parent not in class_folders for path in paths)
    return RawPart(pixels, [str(path) for path in paths], {LABEL: column}, nested=nested)


def _class_folders(folder: Path) -> list[Path]:
    children = visible(folder)
    stray = next((c for c in children if c.is_file() and is_image_file(c)), None)
    if stray is not None:
        raise UserError(
            f"{stray} lies outside any class folder; put each image into a folder named after "
            "its class, or add a metadata.csv with a file_name column."
        )
    folders = [child for child in children if child.is_dir()]
    if not folders:
        raise UserError(
            f"{folder} holds no images; expected class folders, a metadata.csv or "
            "metadata.jsonl, Parquet files or idx files."
        )
    return folders


def _images_below(folder: Path) -> list[Path]:
    """Image files at any depth; any other file is refused, not skipped."""
    paths = list(files_below(folder))
    stray = next((path for path in paths if not is_image_file(path)), None)
    if stray is not None:
        raise UserError(
            f"{stray} is not an image file ({', '.join(SUFFIXES)}); convert it or move it out."
        )
    return paths
