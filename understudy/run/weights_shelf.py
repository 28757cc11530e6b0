"""The catalog of weights as people read it: what there is, and what of it is on this machine."""

from __future__ import annotations

import os
import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from understudy.data.weights import VARIABLE, WeightsEntry, place_of, weights_catalog
from understudy.data.weights_file import digest_of

_WIDTH = 80


@dataclass(frozen=True)
class Shelf:
    """The entries of the catalog, and by name those whose file is here.

    other: names of entries in whose place lies a file with another digest.
    """

    entries: tuple[WeightsEntry, ...]
    here: frozenset[str]
    other: frozenset[str]
    place: str | None

    def text(self) -> str:
        """For people, in lines of at most 80 characters."""
        looked = [
            f"Files are looked for in ${VARIABLE}/, then in the user's cache folder",
            f"({self._where}).",
            "A run takes them by --weights NAME=FILE-or-name; digests are always compared.",
        ]
        return "\n\n".join([*(self._said(entry) for entry in self.entries), "\n".join(looked)])

    @property
    def _where(self) -> str:
        return f"{VARIABLE}={self.place}" if self.place else f"{VARIABLE} is not set"

    def to_json(self) -> dict[str, Any]:
        rows = [{**asdict(entry), "here": entry.name in self.here} for entry in self.entries]
        return {"rows": rows, "notes": [self._where]}

    def _said(self, entry: WeightsEntry) -> str:
        size = f"{entry.bytes / 1e6:.1f} MB"
        facts = [
            entry.summary,
            f"from: {entry.provenance}",
            f"licence: {entry.licence or 'unknown'}",
            f"file: {entry.file} ({size}, {entry.format}); {self._whether_here(entry)}",
        ]
        wrapped = [
            textwrap.fill(
                fact, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
            )
            for fact in facts
        ]
        return "\n".join([entry.name, *wrapped, f"  sha256 {entry.sha256}"])

    def _whether_here(self, entry: WeightsEntry) -> str:
        if entry.name in self.here:
            return "here"
        if entry.name in self.other:
            return "a file with another SHA-256 is in its place"
        if entry.address is not None:
            return "not here, downloaded when it is needed"
        return f"not here; {entry.get or 'put the file there'}"


def look_at_shelf() -> Shelf:
    """The catalog and this machine, as they are now; what lies there is read for its digest."""
    entries = tuple(weights_catalog().values())
    places = {entry.name: place_of(entry) for entry in entries}
    found = {name: digest_of(place) for name, place in places.items() if place is not None}
    here = frozenset(entry.name for entry in entries if found.get(entry.name) == entry.sha256)
    return Shelf(entries, here, frozenset(found) - here, os.environ.get(VARIABLE))
