"""How much memory a cell's worker may need, from what is declared; a rough guess."""

from __future__ import annotations

import math

from understudy.bench.suite.cell import Cell
from understudy.bench.suite.method_lookup import Lookup, made_up_schema
from understudy.data.catalog import Entry, catalog
from understudy.data.schema import Attribute
from understudy.methods.contract import Facts, Forecasting, Method

LEAST = 1.0
"""Gigabytes of any worker: torch itself, small data and small classifiers."""

_COPIES = 8
"""Bytes held for each byte of the data: as it is, as floats, and once more on the way."""

_USUAL_CLASSES = 10


def forecast_gigabytes(cell: Cell, lookup: Lookup) -> float:
    """What to leave free for this cell; of an owner's data nothing is known beforehand."""
    entry = catalog().get(cell.dataset)
    if entry is None:
        return LEAST
    method = lookup.method(cell.method)
    facts = declared_facts(cell, entry, method)
    held = _COPIES * facts.count * math.prod(facts.shape) / 2**30
    if not isinstance(method, Forecasting):
        return LEAST + held
    return max(LEAST, method.gigabytes(lookup.config(cell).config, facts)) + held


def declared_facts(cell: Cell, entry: Entry, method: Method) -> Facts:
    """What the catalog says of a cell's dataset, without reading it."""
    shape = entry.shape
    if not entry.is_table:
        channels, height, width = entry.shape
        shape = (cell.channels or channels, cell.size or height, cell.size or width)
    classes = entry.classes or tuple(str(i) for i in range(_USUAL_CLASSES))
    label = cell.label or entry.label or "label"
    count = entry.parts["train"].count if "train" in entry.parts else 1
    count = count if cell.limit is None else min(count, cell.limit)
    schema = made_up_schema(cell, method, Attribute(label, classes))
    return Facts(count, method.info.declared_counts(count), shape, schema)
