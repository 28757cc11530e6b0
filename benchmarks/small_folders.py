"""Folders as a small owner has them: a few thousand pictures, made from public data.

    python benchmarks/small_folders.py OUT [--which figures|tuning]

`figures` are the three folders that results are quoted for, each beside a folder from elsewhere to
test on: `scans` (PneumoniaMNIST, grey PNG files of mixed sizes), `faces` (3,000 FairFace pictures
by gender; the column that says whose each is is invented: 1 to 4 pictures a person, at random) and
`things` (2,500 CIFAR-10 pictures of its first four classes). `tuning` are the others, on which
settings may be compared: subsets of MNIST, Fashion-MNIST, UTKFace, Tiny ImageNet and the built-in
portraits. Nothing of a folder of one kind is in one of the other.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from understudy.data.load import load
from understudy.data.records import Array, Records

SEED = 0
INVENTED = "person"
EPSILON = 10.0
READING: dict[str, dict[str, Any]] = {
    "scans": {"size": 28, "channels": 1},
    "faces": {"label": "label", "unit": INVENTED},
    "things": {},
}
"""How the owner of each folder of figures reads it."""


@dataclass(frozen=True)
class Pictures:
    """Pixels `[N, C, H, W]` and the name of each picture's class."""

    pixels: Array
    classes: Sequence[str]

    def __len__(self) -> int:
        return len(self.pixels)

    def chosen(self, rows: Array) -> Pictures:
        return Pictures(self.pixels[rows], [self.classes[row] for row in rows])


@dataclass(frozen=True)
class Folder:
    """A folder to be written: what is private, what is tested on, and how the files lie.

    sides: makes the side of each file from its number; None keeps what the source has.
    persons: whether a metadata file names an invented person of each picture.
    """

    private: Pictures
    elsewhere: Pictures
    sides: Callable[[int], int] | None = None
    persons: bool = False


def figures() -> Iterator[tuple[str, Folder]]:
    scans, faces, things = (
        load("pneumoniamnist"),
        load("fairface", label="gender"),
        load("cifar-10"),
    )
    yield (
        "scans",
        Folder(
            pictures(scans.part("train")),
            pictures(scans.part("test")),
            sides=lambda number: (28, 36, 45, 56)[number % 4],
        ),
    )
    yield (
        "faces",
        Folder(
            some(pictures(faces.part("train")), 3000),
            some(pictures(faces.part("test")), 2000),
            persons=True,
        ),
    )
    four = things.schema.classes[:4]
    yield (
        "things",
        Folder(
            some_of_each(pictures(things.part("train")), four, 625),
            some_of_each(pictures(things.part("test")), four, 1000),
        ),
    )


def tuning() -> Iterator[tuple[str, Folder]]:
    for name, count in (("mnist", 1000), ("fashion-mnist", 2500)):
        data = load(name)
        yield (
            f"{name}-{count}",
            Folder(
                some(pictures(data.part("train")), count), some(pictures(data.part("test")), 4000)
            ),
        )
    yield "coats", _coats()
    yield "utkface-3000", _utkface()
    yield "kinds", _kinds()
    drawn = pictures(load("portraits").part("train"))
    yield (
        "portraits-1500",
        Folder(drawn.chosen(np.arange(1500)), drawn.chosen(np.arange(1500, 3500))),
    )


def _coats() -> Folder:
    """Grey, two classes that are alike, one of them three times as frequent, as among scans."""
    data = load("fashion-mnist")
    wanted = {"pullover": 3000, "coat": 1000}
    whole, test = pictures(data.part("train")), pictures(data.part("test"))
    names = {name.lower(): name for name in data.schema.classes}
    parts = [some_of_each(whole, [names[name]], count) for name, count in wanted.items()]
    joined = Pictures(
        np.concatenate([part.pixels for part in parts]),
        [name for part in parts for name in part.classes],
    )
    return Folder(joined, some_of_each(test, [names[name] for name in wanted], 1000))


def _utkface() -> Folder:
    data = load("utkface", label="gender")
    return Folder(some(pictures(data.part("train")), 3000), some(pictures(data.part("test")), 2000))


KINDS = {
    "mammal": "German shepherd, tabby, lion, brown bear, ox, bison, gazelle, chimpanzee, hog, "
    "cougar",
    "vehicle": "convertible, freight car, go-kart, limousine, moving van, police van, school bus, "
    "sports car, trolleybus, tractor",
    "food": "guacamole, ice cream, mashed potato, cauliflower, bell pepper, orange, lemon, banana, "
    "meat loaf, pizza",
    "place": "alp, cliff, coral reef, lakeside, seashore",
}
"""What the classes of Tiny ImageNet are taken together as."""


def _kinds() -> Folder:
    """625 pictures of each kind: small pictures in colour, of things that lie far apart."""
    data = load("tiny-imagenet-32")
    kind_of = {name: kind for kind, names in KINDS.items() for name in names.split(", ")}
    parts = []
    for part, count in (("train", 625), ("test", 250)):
        whole = pictures(data.part(part))
        kinds = whole.chosen(np.flatnonzero([name in kind_of for name in whole.classes]))
        named = Pictures(kinds.pixels, [kind_of[name] for name in kinds.classes])
        parts.append(some_of_each(named, list(KINDS), count))
    return Folder(*parts)


def pictures(records: Records) -> Pictures:
    names = records.schema.classes
    return Pictures(records.features, [names[code] for code in records.labels])


def some(whole: Pictures, count: int) -> Pictures:
    """So many at random, the same at every call."""
    return whole.chosen(np.random.default_rng(SEED).permutation(len(whole))[:count])


def some_of_each(whole: Pictures, classes: Sequence[str], count: int) -> Pictures:
    random, names = np.random.default_rng(SEED), np.array(whole.classes)
    rows = [random.permutation(np.flatnonzero(names == name))[:count] for name in classes]
    return whole.chosen(np.concatenate(rows))


def write(folder: Folder, out: Path) -> None:
    """`out` is private, and what is tested on lies beside it in `out`-elsewhere."""
    if folder.persons:
        _write_with_persons(folder.private, out)
    else:
        _write_class_folders(folder.private, out, folder.sides)
    _write_class_folders(folder.elsewhere, out.with_name(f"{out.name}-elsewhere"), folder.sides)


def _write_class_folders(some: Pictures, out: Path, sides: Callable[[int], int] | None) -> None:
    for number, name in enumerate(some.classes):
        path = out / name / f"{number:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        _image(some.pixels[number], None if sides is None else sides(number)).save(path)


def _write_with_persons(some: Pictures, out: Path) -> None:
    """As class folders, and a metadata file with a label and an invented person of each."""
    out.mkdir(parents=True)
    with (out / "metadata.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file_name", "label", INVENTED])
        for number, (name, person) in enumerate(
            zip(some.classes, _invented_persons(len(some)), strict=True)
        ):
            _image(some.pixels[number], None).save(out / f"{number:05d}.png")
            rows.writerow([f"{number:05d}.png", name, person])


def _invented_persons(count: int) -> list[str]:
    of_each = np.random.default_rng(SEED).integers(1, 5, size=count)
    return [f"person {code:04d}" for code in np.repeat(np.arange(count), of_each)[:count]]


def _image(pixels: Array, side: int | None) -> Image.Image:
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    return picture if side is None else picture.resize((side, side), Image.Resampling.BICUBIC)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--which", choices=("figures", "tuning"), default="figures")
    asked = parser.parse_args()
    for name, folder in figures() if asked.which == "figures" else tuning():
        write(folder, asked.out / name)
        print(f"{asked.out / name}: {len(folder.private):,}; {len(folder.elsewhere):,} elsewhere")


if __name__ == "__main__":
    main()
