"""Who reads which kind of raw files: the `kind` of a catalog entry names its reader."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from understudy.data.entry import Entry
from understudy.data.images import Reading
from understudy.data.sources.raw import RawPart
from understudy.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Request:
    """What a reader is asked for.

    folder: the dataset's folder, which exists.
    reading: the size and channels to decode image files to. A format that stores pixels
        as arrays may hand them over as they are; they are fitted afterwards.
    unit: the column that the run takes units from; `None` spares a reader its file.
    """

    entry: Entry
    folder: Path
    reading: Reading
    unit: str | None = None

    def lacks(self, what: str) -> UserError:
        """The error for raw files that are not there."""
        return UserError(
            f"{self.folder} lacks {what}; {self.entry.name} needs {self.entry.files}, "
            f"{self.entry.where_from}."
        )


Reader = Callable[[Request], Mapping[str, RawPart]]

_READERS: Mapping[str, str] = {
    "idx": "understudy.data.sources.idx:read_published_idx",
    "cifar": "understudy.data.sources.cifar:read_cifar",
    "medmnist": "understudy.data.sources.medmnist:read_medmnist",
    "tiny-imagenet": "understudy.data.sources.tiny_imagenet:read_tiny_imagenet",
    "eurosat": "understudy.data.sources.eurosat:read_eurosat",
    "celeba": "understudy.data.sources.celeba:read_celeba",
    "camelyon": "understudy.data.sources.camelyon:read_camelyon",
    "adult": "understudy.data.sources.adult:read_adult",
    "utkface": "understudy.data.sources.utkface:read_utkface",
    "fairface": "understudy.data.sources.fairface:read_fairface",
}


def reader_of(kind: str) -> Reader:
    """The function that reads this kind of raw files."""
    if kind not in _READERS:
        raise UserError(f"no reader for raw files of kind {kind!r}; {did_you_mean(kind, _READERS)}")
    module, _, name = _READERS[kind].partition(":")
    return cast(Reader, getattr(importlib.import_module(module), name))
