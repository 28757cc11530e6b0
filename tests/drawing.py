"""Tiny datasets drawn by code: each class a bar at its own height, with noise."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

SIDE = 8
Pixels = npt.NDArray[np.uint8]


def bars(
    count: int, classes: int = 2, seed: int = 0, channels: int = 1
) -> tuple[Pixels, list[int]]:
    """`count` images that all differ, and the class of each, in turn."""
    rng = np.random.default_rng(seed)
    codes = [i % classes for i in range(count)]
    pixels = rng.integers(0, 90, (count, channels, SIDE, SIDE)).astype(np.uint8)
    for image, code in zip(pixels, codes, strict=True):
        image[:, (code * SIDE) // classes + 1] = 230
    return pixels, codes


def png(pixels: Pixels) -> bytes:
    array = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


def class_folder(
    folder: Path, count: int = 40, classes: Sequence[str] = ("cross", "round"), seed: int = 0
) -> Path:
    pixels, codes = bars(count, len(classes), seed)
    for i, (image, code) in enumerate(zip(pixels, codes, strict=True)):
        path = folder / classes[code] / f"{i:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(image))
    return folder


def metadata_folder(folder: Path, count: int = 40, per_person: int = 2) -> Path:
    """Images with a kind, an eye colour, and the person that each belongs to."""
    pixels, codes = bars(count)
    folder.mkdir(parents=True)
    with (folder / "metadata.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file_name", "kind", "eyes", "person"])
        for i, (image, code) in enumerate(zip(pixels, codes, strict=True)):
            (folder / f"{i}.png").write_bytes(png(image))
            kind, eyes = ("left", "right")[code], ("blue", "brown")[i % 3 == 0]
            rows.writerow([f"{i}.png", kind, eyes, f"person-{i // per_person}"])
    return folder


def parquet_file(path: Path, count: int = 40) -> Path:
    pixels, codes = bars(count, channels=3)
    images = [{"bytes": png(image), "path": None} for image in pixels]
    pq.write_table(pa.table({"image": images, "label": [("no", "yes")[c] for c in codes]}), path)
    return path
