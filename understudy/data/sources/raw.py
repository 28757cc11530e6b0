"""What every loader hands over: pixels, and annotation columns as they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from understudy.data.images import SUFFIXES, ImageStack, Reading, read_file
from understudy.data.records import Array
from understudy.errors import UserError

Value = str | int | None

PART_NAMES: Mapping[str, str] = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
}


@dataclass(frozen=True)
class Column:
    """One annotation per image.

    classes: the names that the source itself declares (a `ClassLabel`); `values` are then
        codes into them. `None`: classes are whatever values occur, and those in `named`.
    named: classes that the source has a place for, whether anything is in it or not: the names of
        class folders.
    values: may be an array of codes where classes are declared: large sets with many
        attributes are then not spelled out value by value.
    """

    values: Sequence[Value] | Array
    classes: tuple[str, ...] | None = None
    named: tuple[str, ...] = ()


@dataclass(frozen=True)
class RawPart:
    """One part of a source.

    pixels: uint8 [N, C, H, W]; the rows of a table are float32 [N, columns].
    names: what an error calls each image: its file, or its row.
    left_out: columns that cannot be attributes, each with the reason.
    nested: whether class folders hold folders of their own, which are no part of the label.
    """

    pixels: Array
    names: Sequence[str]
    columns: Mapping[str, Column]
    left_out: Mapping[str, str] = field(default_factory=dict)
    nested: bool = False


def plain(value: str | int | bool | None) -> Value:
    """A value as it becomes a class: truth values are text, as in JSON."""
    return str(value).lower() if isinstance(value, bool) else value


def read_images(paths: Sequence[Path], reading: Reading, place: Path) -> Array:
    """The pixels of these files, with a bar that says where they are read from."""
    stack = ImageStack(len(paths), reading)
    with reading.progress.task(f"reading images from {place.name}", len(paths)) as task:
        for path in paths:
            stack.add(read_file(path), str(path))
            task.advance()
    return stack.finish()


def visible(folder: Path) -> list[Path]:
    """What a folder holds, by name, without the litter of file managers."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise UserError(
            f"{folder} cannot be opened ({error.strerror}); make it a readable folder."
        ) from error
    litter = ("thumbs.db", "desktop.ini", "__macosx")
    return [e for e in entries if not e.name.startswith(".") and e.name.lower() not in litter]


def files_below(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Every visible file at any depth, in the order of names.

    above: the folders that lead here; a link back to one of them has no end.
    """
    own = folder.resolve()
    if own in above:
        raise UserError(f"{folder} is a link to a folder that it lies in; take the link out.")
    for path in visible(folder):
        if path.is_dir():
            yield from files_below(path, above | {own})
        else:
            yield path


def is_image_file(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def by_part(
    folder: Path, load_one: Callable[[Path, Reading], RawPart], reading: Reading
) -> dict[str, RawPart]:
    """One part per `train`, `test` or `validation` folder, or all of it as one part."""
    folders = part_folders(folder)
    if not folders:
        return {"all": load_one(folder, reading)}
    return {part: load_one(path, reading) for part, path in folders.items()}


def part_folders(folder: Path) -> dict[str, Path]:
    """The folders of a source that is already divided; empty where it is not.

    Folders count as parts only if there is a `train` among them and nothing else beside
    them: a class called `test` must not become a part.
    """
    children = [path for path in visible(folder) if path.is_dir()]
    parts = {PART_NAMES[c.name.lower()]: c for c in children if c.name.lower() in PART_NAMES}
    if "train" in parts and len(parts) == len(children):
        return parts
    return {}
