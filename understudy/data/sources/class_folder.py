"""A folder of class folders: `photos/cat/1.png` is an image whose label is `cat`."""

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
    for class_folder in _class_folders(folder):
        found = _images_below(class_folder)
        if not found:
            raise UserError(f"class folder {class_folder} holds no image; fill it or remove it.")
        paths.extend(found)
        labels.extend([class_folder.name] * len(found))
    pixels = read_images(paths, reading, folder)
    return RawPart(pixels, [str(path) for path in paths], {LABEL: Column(labels)})


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
