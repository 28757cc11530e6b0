"""A folder of images with a `metadata.csv` or `metadata.jsonl` that annotates them.

The layout is the one that Hugging Face calls imagefolder: a `file_name` column gives each
image's path below the folder, every other column annotates it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.data.images import Reading
from understudy.data.sources.raw import (
    Column,
    RawPart,
    by_part,
    files_below,
    is_image_file,
    part_folders,
    plain,
    read_images,
)
from understudy.errors import UserError

METADATA_FILES = ("metadata.csv", "metadata.jsonl")
FILE_NAME = "file_name"

Row = Mapping[str, Any]


def has_metadata(folder: Path) -> bool:
    """Whether this folder, or each of its part folders, carries a metadata file."""
    places = list(part_folders(folder).values()) or [folder]
    return bool(_metadata_files(folder)) or all(_metadata_files(place) for place in places)


def load_metadata_folder(folder: Path, reading: Reading) -> dict[str, RawPart]:
    """Every image named in the metadata file, with its other columns as annotations."""
    if _metadata_files(folder):
        return {"all": _load_part(folder, reading)}
    return by_part(folder, _load_part, reading)


def _load_part(folder: Path, reading: Reading) -> RawPart:
    found = _metadata_files(folder)
    if len(found) > 1:
        raise UserError(f"{folder} holds both metadata.csv and metadata.jsonl; keep one of them.")
    rows = _read_rows(found[0])
    if not rows:
        raise UserError(f"{found[0]} has no rows; write one row per image.")
    paths = [_image_path(found[0], number, row) for number, row in enumerate(rows, start=1)]
    _refuse_unlisted(folder, found[0], paths)
    columns, left_out = _columns(rows)
    pixels = read_images(paths, reading, folder)
    return RawPart(pixels, [str(path) for path in paths], columns, left_out)


def _metadata_files(folder: Path) -> list[Path]:
    return [folder / name for name in METADATA_FILES if (folder / name).is_file()]


def _read_rows(path: Path) -> list[Row]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as UTF-8 text; save it as UTF-8.") from error
    return _csv_rows(text, path) if path.suffix == ".csv" else _jsonl_rows(text, path)


def _csv_rows(text: str, path: Path) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        if len(set(header)) != len(header):
            raise UserError(f"{path} names a column twice; column names must differ.")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise UserError(
                    f"{path} line {reader.line_num} has {len(cells)} cells for {len(header)} "
                    "columns; give one cell per column."
                )
            rows.append({key: cell or None for key, cell in zip(header, cells, strict=True)})
    except csv.Error as error:
        raise UserError(
            f"{path} line {reader.line_num} is not valid CSV ({error}); quote it properly."
        ) from error
    return rows


def _jsonl_rows(text: str, path: Path) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{path} line {number} is not valid JSON ({error.msg}); "
                "write one JSON object per line."
            ) from error
        if not isinstance(row, dict):
            raise UserError(f"{path} line {number} is not a JSON object; write one per line.")
        rows.append(row)
    return rows


def _image_path(metadata: Path, number: int, row: Row) -> Path:
    name = row.get(FILE_NAME)
    if isinstance(name, str) and "\0" in name:
        raise UserError(f"{metadata} row {number} has a NUL byte in file_name; name a file.")
    if not isinstance(name, str):
        columns = ", ".join(map(repr, row))
        raise UserError(
            f"{metadata} row {number} has no file_name, its columns are {columns}; "
            "name each image's file in a column called file_name, and separate CSV cells by commas."
        )
    folder = metadata.parent
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{metadata} row {number} points outside its folder ({name}); keep it in.")
    if not path.is_file():
        raise UserError(f"{metadata} row {number} names {name}, which is not there; add the file.")
    return path


def _refuse_unlisted(folder: Path, metadata: Path, listed: list[Path]) -> None:
    resolved = {path.resolve() for path in listed}
    if len(resolved) != len(listed):
        raise UserError(f"{metadata} lists a file twice; give each image one row.")
    for path in filter(is_image_file, files_below(folder)):
        if path.resolve() not in resolved:
            raise UserError(
                f"{path} is not listed in {metadata.name}; add a row for it or move it out."
            )


def _columns(rows: list[Row]) -> tuple[dict[str, Column], dict[str, str]]:
    names = dict.fromkeys(name for row in rows for name in row if name != FILE_NAME)
    columns: dict[str, Column] = {}
    left_out: dict[str, str] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if all(isinstance(value, str | int | None) for value in values):
            columns[name] = Column([plain(value) for value in values])
        else:
            left_out[name] = "holds values that are neither text nor whole numbers"
    return columns, left_out
