"""A Parquet file, or a folder of them, with an image column: releases included."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.images import Reading
from understudy.data.sources.arrow import ArrowPart, read_arrow
from understudy.data.sources.raw import PART_NAMES, RawPart
from understudy.errors import UserError

_ROWS_AT_ONCE = 1024


def find_parquet(folder: Path) -> list[Path]:
    """Parquet files at any depth, by name."""
    return sorted(p for p in folder.rglob("*.parquet") if p.is_file())


def load_parquet(source: Path, reading: Reading) -> dict[str, RawPart]:
    """One part per name in front of the files (`train-00000.parquet`), or all as one."""
    files = [source] if source.is_file() else find_parquet(source)
    grouped: dict[str, list[Path]] = {}
    for path in files:
        grouped.setdefault(_part_of(path, source), []).append(path)
    if "all" in grouped and len(grouped) > 1:
        raise UserError(
            f"{source} mixes files of named parts with {grouped['all'][0].name}; start every "
            "file name with train, validation or test, or none."
        )
    return {part: read_arrow(_open(paths), reading, str(source)) for part, paths in grouped.items()}


def _part_of(path: Path, source: Path) -> str:
    """The part that the file's name starts with, or that its folder is called after."""
    if path == source:
        return "all"
    start = re.split(r"[-_.]", path.stem.lower(), maxsplit=1)[0]
    for name in (start, path.parent.name.lower() if path.parent != source else ""):
        if name in PART_NAMES:
            return PART_NAMES[name]
    return "all"


def _open(paths: Sequence[Path]) -> ArrowPart:
    files = [(path, _parquet_file(path)) for path in paths]
    first_path, first = files[0]
    for path, file in files[1:]:
        if not file.schema_arrow.equals(first.schema_arrow):
            raise UserError(
                f"{path} has other columns than {first_path}; files of one part must agree."
            )
    count = sum(file.metadata.num_rows for _, file in files)
    return ArrowPart(first.schema_arrow, count, _batches(files), first_path.parent)


def _parquet_file(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"{path} is not a Parquet file that can be read; replace it with a whole copy."
        ) from error


def _batches(files: Sequence[tuple[Path, pq.ParquetFile]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for path, file in files:
        try:
            yield from ((str(path), b) for b in file.iter_batches(batch_size=_ROWS_AT_ONCE))
        except (pa.ArrowException, OSError) as error:
            raise UserError(
                f"{path} is truncated or damaged; replace it with a whole copy."
            ) from error
