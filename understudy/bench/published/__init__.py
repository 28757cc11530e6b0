"""Figures that others published, as data: what was measured, how, and whether its claim holds.

Beside this module lies, for each source, `<source>.yaml` (citation, tables, protocols, metrics in
words, soundness of every method) and one or more CSV files (`<source>.csv`, `<source>-*.csv`),
one number a line. `published` reads them strictly: a figure without a protocol and a soundness
flag does not load, so a table cannot show one without them.
"""

from __future__ import annotations

from understudy.bench.published.figure import (
    Figure,
    PublishedProtocol,
    Sound,
    Soundness,
    Source,
)
from understudy.bench.published.reading import published, sources

__all__ = [
    "Figure",
    "PublishedProtocol",
    "Sound",
    "Soundness",
    "Source",
    "published",
    "sources",
]
