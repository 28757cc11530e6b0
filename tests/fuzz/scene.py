"""One small finished run with everything around it, made once and copied for each input."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from PIL import Image

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.evaluation.protocol import load_protocol

RUN = ("--method", *SMALL_MERF[1:], "--epsilon", "1", "--dataset", "fuzzed", "--holdout", "0.5")
SUITE = """\
defaults: {protocol: reduced, delta: 1e-5}
grid:
  dataset: [digits, portraits]
  method: [dp-merf, dp-gan]
  epsilon: [1, 10]
overrides:
  - where: {dataset: portraits}
    size: 16
    label: freckles
  - where: {method: dp-gan, dataset: portraits}
    settings: {steps: 100, batch: 256}
"""


ENOUGH = 24
"""Records of a folder that is split in half: fewer may all fall into one half by chance."""


@dataclass(frozen=True)
class Scene:
    """The folder that holds it all, and the digest of the release in it.

    A run cannot be resumed elsewhere than where it began, so the folder is spoilt in place
    and put back from `pristine`.
    """

    folder: Path
    pristine: Path
    digest: str

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.pristine, self.folder)


def build_scene(folder: Path) -> Scene:
    """A run on a class folder, its release, and inputs of every kind that can be read."""
    place, pristine = Workplace(folder / "scene"), folder / "pristine"
    place.folder.mkdir()
    drawing.class_folder(place / "photos", count=16)
    told = place.run("synthesize", "photos", *RUN, "--samples", "6", "-o", "out", "--json")
    digest = str(told.succeeded().json()["digest"])
    _inputs(place.folder)
    shutil.copytree(place.folder, pristine)
    return Scene(place.folder, pristine, digest)


def _inputs(folder: Path) -> None:
    drawing.metadata_folder(folder / "listed", count=ENOUGH)
    rows = (folder / "listed/metadata.csv").read_text().splitlines()[1:]
    lined = folder / "lined"
    lined.mkdir()
    lines = []
    for row in rows:
        name, kind, *_ = row.split(",")
        (lined / name).write_bytes((folder / "listed" / name).read_bytes())
        lines.append(f'{{"file_name": "{name}", "kind": "{kind}"}}\n')
    (lined / "metadata.jsonl").write_text("".join(lines))
    drawing.parquet_file(folder / "table.parquet", count=ENOUGH)
    _pictures(folder / "formats")
    _idx(folder / "idx")
    _npz(folder / "data/breastmnist")
    protocol = {**load_protocol("reduced").to_json(), "metrics": []}
    (folder / "protocol.yaml").write_text(yaml.safe_dump(protocol))
    (folder / "suite.yaml").write_text(SUITE)


def _pictures(folder: Path) -> None:
    """A class folder with files of each format that images come in."""
    pixels, codes = drawing.bars(ENOUGH)
    for i, (image, code) in enumerate(zip(pixels, codes, strict=True)):
        kind = ("PNG", "PNG", "JPEG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")[i % 8]
        buffer = io.BytesIO()
        Image.fromarray(image[0]).convert("L" if kind != "WEBP" else "RGB").save(buffer, kind)
        path = folder / ("cross", "round")[code] / f"{i}.{kind.lower()}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())


def _idx(folder: Path) -> None:
    folder.mkdir()
    pixels, codes = drawing.bars(8)
    for part in ("train", "t10k"):
        images = struct.pack(">IIII", 0x803, 8, 8, 8) + pixels.tobytes()
        labels = struct.pack(">II", 0x801, 8) + bytes(codes)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, mtime=0))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def _npz(folder: Path) -> None:
    """A set of MedMNIST in its published shape, all black."""
    folder.mkdir(parents=True)
    parts = {"train": 546, "val": 78, "test": 156}
    images = {f"{k}_images": np.zeros((n, 28, 28), np.uint8) for k, n in parts.items()}
    labels = {f"{k}_labels": np.arange(n, dtype=np.uint8)[:, None] % 2 for k, n in parts.items()}
    np.savez_compressed(folder / "breastmnist.npz", **images, **labels)
