"""Runs, their phases and their metric rows as three flat tables.

Ten thousand files are parsed by Arrow in one go: that is what keeps `bench table` and
`bench sql` quick without a cache that could go stale. Arrow is told the type of every field,
which it may rely on because evidence is checked against its schema before it is written or used.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from understudy.bench.evidence.store import StoredFile

_BLOCK_BYTES = 8 << 20
"""How much Arrow's threads take at once; it must exceed any one file."""

PHASES = ("fit", "sample", "classify", "evaluate")

RUN_COLUMNS: Mapping[str, tuple[str, str]] = {
    "run": ("name", "string"),
    "suite": ("suite", "string"),
    "status": ("status", "string"),
    "reason": ("reason", "string"),
    "limit": ("limit", "int64"),
    "audience": ("audience", "string"),
    "method": ("config.method", "string"),
    "dataset": ("config.dataset", "string"),
    "epsilon": ("config.epsilon", "double"),
    "delta": ("config.delta", "double"),
    "seed": ("config.seed", "int64"),
    "samples": ("config.samples", "int64"),
    "label": ("config.label", "string"),
    "preset": ("config.preset", "string"),
    "asked_protocol": ("config.protocol", "string"),
    "protocol": ("metrics.protocol.name", "string"),
    "stamp": ("metrics.protocol.stamp", "string"),
    "protocol_digest": ("digests.protocol", "string"),
    "configuration": ("digests.configuration", "string"),
    "public": ("data.public", "bool"),
    "data_hash": ("data.hash", "string"),
    "claim": ("claim.kind", "string"),
    "claimed_epsilon": ("claim.epsilon", "double"),
    "claimed_delta": ("claim.delta", "double"),
    "accountant": ("claim.accountant", "string"),
    "ledger_head": ("claim.ledger.head", "string"),
    "ledger_length": ("claim.ledger.length", "int64"),
    "fit_key": ("keys.fit", "string"),
    "sample_key": ("keys.sample", "string"),
    "evaluate_key": ("keys.evaluate", "string"),
    "commit": ("commit", "string"),
    "dirty": ("dirty", "bool"),
    "peak_gigabytes": ("peak_gigabytes", "double"),
    "command": ("command", "string"),
}
"""Each column of a run, with its place in the file and its type."""

PHASE_COLUMNS: Mapping[str, tuple[str, str]] = {
    "seconds": ("seconds", "double"),
    "peak_gigabytes": ("peak_gigabytes", "double"),
    "commit": ("commit", "string"),
    "dirty": ("dirty", "bool"),
    "processor": ("hardware.processor", "string"),
}

METRIC_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("metric", "variant", "extractor"), "string"),
    **dict.fromkeys(("value", "low", "high", "confidence"), "double"),
    **dict.fromkeys(("direction", "unit"), "string"),
    **dict.fromkeys(("reference", "chance"), "double"),
    **dict.fromkeys(("status", "reason"), "string"),
}


@dataclass(frozen=True)
class RunTables:
    """Three tables, each made when first asked for.

    runs has one row a run, in the order of the files; metrics and phases name theirs in `run`,
    and `row` of metrics counts the runs from 0.
    """

    whole: pa.Table
    trusts: tuple[str, ...]

    @functools.cached_property
    def runs(self) -> pa.Table:
        columns = {name: _column(self.whole, path) for name, (path, _) in RUN_COLUMNS.items()}
        columns["protocol"] = pc.coalesce(columns["protocol"], columns.pop("asked_protocol"))
        columns["trust"] = _words(self.trusts)
        return _table(columns)

    @functools.cached_property
    def metrics(self) -> pa.Table:
        lists = _column(self.whole, "metrics.rows")
        parents, rows = pc.list_parent_indices(lists), pc.list_flatten(lists)
        columns = {"run": _column(self.whole, "name").take(parents), "row": parents}
        columns |= {name: pc.struct_field(rows, name) for name in (*METRIC_COLUMNS, "bounds")}
        return _table(columns)

    @functools.cached_property
    def phases(self) -> pa.Table:
        parts = []
        for phase in PHASES:
            columns = {"run": _column(self.whole, "name")}
            columns["phase"] = _words([phase] * self.whole.num_rows)
            for name, (path, _) in PHASE_COLUMNS.items():
                columns[name] = _column(self.whole, f"phases.{phase}.{path}")
            table = _table(columns)
            parts.append(table.filter(pc.is_valid(table.column("seconds"))))
        return pa.concat_tables(parts)


def run_tables(files: Sequence[StoredFile]) -> RunTables:
    """The tables of these files, which must be runs."""
    return RunTables(_parsed(files), tuple(file.trust for file in files))


def _parsed(files: Sequence[StoredFile]) -> pa.Table:
    schema = _schema()
    if not files:
        return schema.empty_table()
    largest = max(len(file.content) for file in files)
    whole = pj.read_json(
        pa.BufferReader(b"".join(file.content for file in files)),
        read_options=pj.ReadOptions(block_size=max(_BLOCK_BYTES, 2 * largest)),
        parse_options=pj.ParseOptions(
            explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore"
        ),
    )
    return whole.combine_chunks()


def _schema() -> pa.Schema:
    """The fields that the columns need, nested as in the files."""
    tree: dict[str, Any] = {}
    for path, kind in RUN_COLUMNS.values():
        _plant(tree, path, pa.type_for_alias(kind))
    for phase in PHASES:
        for path, kind in PHASE_COLUMNS.values():
            _plant(tree, f"phases.{phase}.{path}", pa.type_for_alias(kind))
    fields = [(name, pa.type_for_alias(kind)) for name, kind in METRIC_COLUMNS.items()]
    bounds = ("bounds", pa.list_(pa.float64()))
    _plant(tree, "metrics.rows", pa.list_(pa.struct([*fields, bounds])))
    return pa.schema(_struct(tree))


def _plant(tree: dict[str, Any], path: str, kind: pa.DataType) -> None:
    *branches, leaf = path.split(".")
    for branch in branches:
        tree = tree.setdefault(branch, {})
    tree[leaf] = kind


def _struct(tree: Mapping[str, Any]) -> pa.StructType:
    return pa.struct(
        [(name, _struct(held) if isinstance(held, dict) else held) for name, held in tree.items()]
    )


def _column(whole: pa.Table, path: str) -> pa.Array:
    first, *rest = path.split(".")
    column = _one_piece(whole.column(first))
    return pc.struct_field(column, rest) if rest else column


def _one_piece(column: pa.ChunkedArray) -> pa.Array:
    """As one array, also where there are no rows at all."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _table(columns: Mapping[str, pa.Array]) -> pa.Table:
    """As `pa.table`, which would load pandas wherever that is installed."""
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def _words(words: Sequence[str]) -> pa.Array:
    """As `pa.array`, without pandas as well."""
    if not words:
        return _one_piece(pa.schema([("word", pa.string())]).empty_table().column(0))
    known = {word: json.dumps({"word": word}) for word in set(words)}
    lines = "\n".join(known[word] for word in words)
    return pj.read_json(pa.BufferReader(lines.encode())).combine_chunks().column(0).chunk(0)
