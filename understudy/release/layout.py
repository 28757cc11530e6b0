"""Which files a release is made of, or a collection; anything else has no business there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from understudy.release.manifest import MANIFEST, SIGNATURE

CARD = "README.md"
CLAIM = "claim.json"
LEDGER = "ledger.jsonl"
CROISSANT = "croissant.json"
SHEET = "contact-sheet.png"

ONLY_TABLE = "data/train-00000-of-00001.parquet"
_TABLE = re.compile(r"data/train-\d{5}-of-\d{5}\.parquet")


@dataclass(frozen=True)
class Layout:
    """The files of one kind of folder that is handed on.

    own: what this kind has beside card, tables and manifest, all of it JSON.
    shards: whether there may be more than one table.
    optional: what may be there too.
    """

    kind: str
    own: tuple[str, ...]
    shards: bool
    optional: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        return (CARD, *self.own, MANIFEST)

    @property
    def documents(self) -> tuple[str, ...]:
        """What holds JSON."""
        return (*self.own, SIGNATURE)

    def tables(self, names: Iterable[str]) -> list[str]:
        """The tables among these paths, in order."""
        return sorted(n for n in names if _TABLE.fullmatch(n) and (self.shards or n == ONLY_TABLE))

    def strangers(self, names: Iterable[str]) -> list[str]:
        """What no folder of this kind has and these paths hold, in words."""
        names = set(names)
        unknown = names - {*self.required, *self.optional, SIGNATURE, *self.tables(names)}
        return [f"{name} does not belong in a {self.kind}." for name in sorted(unknown)]

    def gaps(self, names: Iterable[str]) -> list[str]:
        """What every folder of this kind has and these paths lack, in words."""
        names = set(names)
        missing = [name for name in self.required if name not in names]
        if not self.tables(names):
            missing.append("data/train-*.parquet" if self.shards else ONLY_TABLE)
        return [f"{name} is missing." for name in missing]


RELEASE = Layout("release", (CLAIM, LEDGER, CROISSANT), shards=True, optional=(SHEET,))
