"""One door for every source: a catalog name, a folder, a Parquet file, a Hub name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.data.catalog import catalog, load_catalog
from understudy.data.dedup import shared_between
from understudy.data.images import Reading
from understudy.data.persons import person_columns
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.data.sources.assemble import Roles, assemble
from understudy.data.sources.class_folder import load_class_folder
from understudy.data.sources.hub import PREFIX, load_hub
from understudy.data.sources.idx import has_idx, load_idx_folder
from understudy.data.sources.metadata_folder import has_metadata, load_metadata_folder
from understudy.data.sources.raw import RawPart
from understudy.errors import UserError, did_you_mean, did_you_mean_beside, home_expanded
from understudy.progress import Once, Progress, Silent


@dataclass(frozen=True)
class Dataset:
    """A loaded source.

    parts: `train` and `test` (and `validation`) where the source is divided, else `all`.
    public: whether its records may be looked at freely. Only catalog datasets are; what an
        owner brings is private.
    provenance: where it came from, in words that may be printed. For an owner's data that
        is the name of the file or folder, not its full path.
    split: how the parts came about, in words; `None` where there are no parts.
    person_columns: columns whose names say that they tell whose a record is; none where one of
        the columns is the unit. nested: whether class folders hold folders of their own.
    """

    name: str
    parts: Mapping[str, Records]
    public: bool
    provenance: str
    licence: str | None = None
    split: str | None = None
    person_columns: tuple[str, ...] = ()
    nested: bool = False

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {dict(self.parts)})"

    @property
    def schema(self) -> Schema:
        return self._any.schema

    @property
    def shape(self) -> tuple[int, ...]:
        """(channels, height, width) of every image; (columns,) of a table."""
        return self._any.shape

    def part(self, name: str) -> Records:
        if name not in self.parts:
            raise UserError(f"{self.name} has no part {name!r}; {did_you_mean(name, self.parts)}")
        return self.parts[name]

    @property
    def _any(self) -> Records:
        return next(iter(self.parts.values()))


def load(
    source: str | Path,
    *,
    label: str | None = None,
    unit: str | None = None,
    size: int | None = None,
    channels: int | None = None,
    classes: Sequence[str] | None = None,
    declared: Schema | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Read a dataset.

    source: a catalog name (`digits`), a folder (class folders, or images with
        metadata.csv/jsonl, Parquet or idx files), a Parquet file, or `hf:owner/name`.
        A path wins over a catalog name only if it is written as one (`./digits`).
    label: the attribute to learn. Without it: the column called `label`, or the only one that
        there is beside the unit.
    unit: the column that says whom an image belongs to; it is no attribute then.
    size, channels: crop and resize every image to size x size; 1 for grey, 3 for colour.
    classes: the label's class names, declared by the owner. Then a class that does not
        occur is kept, one that is not declared is refused, and nothing depends on counts.
    declared: the same for several attributes, as an encoder's file has them; a column with
        other classes keeps its own.
    """
    reading = Reading(size, channels, Once(progress or Silent()), declared is not None)
    roles = Roles(label, unit, None if classes is None else tuple(classes), declared)
    text = str(source)
    if isinstance(source, str) and source in catalog():
        found = load_catalog(source, reading, roles)
        entry = found.entry
        _say_shared(entry.name, found.parts, reading.progress)
        return Dataset(
            entry.name, found.parts, entry.public, found.provenance, entry.licence, entry.split
        )
    if text.startswith(PREFIX):
        raw, name, provenance = load_hub(text, reading), text, text
    else:
        path = _existing(text)
        raw, name, provenance = _load_path(path, reading), path.name, path.name
    split = None if set(raw) == {"all"} else "the parts given by the source"
    return Dataset(
        name,
        assemble(raw, roles, text, reading.progress),
        False,
        provenance,
        split=split,
        person_columns=_person_columns(raw) if unit is None else (),
        nested=any(part.nested for part in raw.values()),
    )


def _person_columns(raw: Mapping[str, RawPart]) -> tuple[str, ...]:
    """By their names alone, also of columns that can be no attribute."""
    names = (name for part in raw.values() for name in (*part.columns, *part.left_out))
    return person_columns(dict.fromkeys(names))


def _say_shared(name: str, parts: Mapping[str, Records], progress: Progress) -> None:
    """Parts stay as published; whoever measures memorisation must know what they share.

    Rows of a table are often alike without being the same person's; nothing is said of them.
    """
    if any(records.features.ndim == 2 for records in parts.values()):
        return
    for (earlier, later), count in shared_between(parts).items():
        progress.say(
            f"{name}: images of the {later} part that are in the {earlier} part too: {count:,}; "
            "parts are kept as published (understudy.data.without_shared drops such images)."
        )


def _existing(source: str) -> Path:
    path = home_expanded(source)
    if path.exists():
        return path.resolve()
    near = did_you_mean_beside(path)
    if "/" in source or path.suffix:
        raise UserError(
            f"{source} does not exist; {near or 'give a folder, a Parquet file or a dataset name.'}"
        )
    raise UserError(
        f"no dataset {source!r}, and no folder of that name here; "
        f"{near or did_you_mean(source, catalog())}"
    )


def _load_path(path: Path, reading: Reading) -> dict[str, RawPart]:
    if path.is_file():
        if path.suffix != ".parquet":
            raise UserError(f"{path} is not a Parquet file; give a folder or a .parquet file.")
        return _load_parquet(path, reading)
    if has_metadata(path):
        return load_metadata_folder(path, reading)
    if has_idx(path):
        return load_idx_folder(path, reading)
    if next(path.rglob("*.parquet"), None) is not None:
        return _load_parquet(path, reading)
    return load_class_folder(path, reading)


def _load_parquet(path: Path, reading: Reading) -> dict[str, RawPart]:
    from understudy.data.sources.parquet import load_parquet

    return load_parquet(path, reading)
