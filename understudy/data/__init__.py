"""Records, where they come from, and how they are split.

Functions that are called like their module (`load`, `digits`, `portraits`, `catalog`) are
imported from it: `from understudy.data.load import load`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.data.catalog import Entry, catalog_entry
    from understudy.data.dedup import Deduplicated, deduplicate, shared_between, without_shared
    from understudy.data.digits import digit_parts
    from understudy.data.load import Dataset
    from understudy.data.portraits import portrait_parts
    from understudy.data.record_arrays import load_records, save_records
    from understudy.data.records import Images, Records, concatenate
    from understudy.data.schema import Attribute, Schema
    from understudy.data.splits import keyed_split, shard_of, stratified_split

__all__ = [
    "Attribute",
    "Dataset",
    "Deduplicated",
    "Entry",
    "Images",
    "Records",
    "Schema",
    "catalog_entry",
    "concatenate",
    "deduplicate",
    "digit_parts",
    "keyed_split",
    "load_records",
    "portrait_parts",
    "save_records",
    "shard_of",
    "shared_between",
    "stratified_split",
    "without_shared",
]

_HOMES = {
    "catalog": ("Entry", "catalog_entry"),
    "dedup": ("Deduplicated", "deduplicate", "shared_between", "without_shared"),
    "digits": ("digit_parts",),
    "load": ("Dataset",),
    "portraits": ("portrait_parts",),
    "record_arrays": ("load_records", "save_records"),
    "records": ("Images", "Records", "concatenate"),
    "schema": ("Attribute", "Schema"),
    "splits": ("keyed_split", "shard_of", "stratified_split"),
}


def __getattr__(name: str) -> Any:
    """Public names, each from its module on first use, so that importing this stays cheap."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
