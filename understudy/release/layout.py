"""Which files a release is made of; anything else has no business there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from understudy.release.manifest import MANIFEST, SIGNATURE

CARD = "README.md"
CLAIM = "claim.json"
LEDGER = "ledger.jsonl"
CROISSANT = "croissant.json"
REQUIRED = (CARD, CLAIM, LEDGER, CROISSANT, MANIFEST)

_SHARD = re.compile(r"data/train-\d{5}-of-\d{5}\.parquet")


def shards(names: Iterable[str]) -> list[str]:
    """The tables among these paths, in order."""
    return sorted(name for name in names if _SHARD.fullmatch(name))


def unknown(names: Iterable[str]) -> list[str]:
    """The paths among these that no release has."""
    known = (*REQUIRED, SIGNATURE)
    return sorted(name for name in names if name not in known and not _SHARD.fullmatch(name))


def missing(names: Iterable[str]) -> list[str]:
    """What every release has and these paths lack."""
    present = set(names)
    absent = [name for name in REQUIRED if name not in present]
    return absent if shards(present) else [*absent, "data/train-*.parquet"]
