"""Questions to the evidence in SQL, over views that live in memory and can only be read.

| view | one row for each |
|---|---|
| `runs` | run: what was asked for, its claim, keys, status, trust |
| `metrics` | metric row of a run, beside the columns of `runs` |
| `phases` | phase of a run: seconds, memory, commit, processor |
| `settings` | setting of a run's method |
| `measurements` | measurement that is no run, its configuration and result as JSON |
| `published` | figure that others published |

Files, other databases, extensions and the settings of the engine are out of a query's reach.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from understudy.bench.evidence.store import Store, StoredFile
from understudy.bench.tables.spreadsheet import csv_cell
from understudy.errors import UserError
from understudy.run.listing import aligned

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

VIEWS = ("runs", "metrics", "phases", "settings", "measurements", "published")

_METRICS = """
    CREATE VIEW metrics AS
    SELECT m.* EXCLUDE ("row"), r.* EXCLUDE (run, status, reason),
           r.status AS run_status, r.reason AS run_reason
    FROM metric_rows AS m JOIN runs AS r USING (run)
"""
_LOCKED = (
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_SETTINGS = {"run": "string", "key": "string", "value": "string"}
_MEASUREMENTS = {
    **dict.fromkeys(("name", "trust", "audience", "command", "commit"), "string"),
    "dirty": "bool",
    "peak_gigabytes": "double",
    **dict.fromkeys(("versions", "hardware", "seconds", "config", "result"), "string"),
}
_PUBLISHED = {
    **dict.fromkeys(("source", "table", "method", "dataset", "epsilon"), "string"),
    "delta": "double",
    **dict.fromkeys(("metric", "variant"), "string"),
    **dict.fromkeys(("value", "spread"), "double"),
    **dict.fromkeys(("unit", "protocol", "note", "sound", "reason"), "string"),
}


@dataclass(frozen=True)
class Answer:
    """What a query gave: the names of its columns, and rows of plain values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def answer_text(answer: Answer) -> str:
    """Aligned columns; nothing found still shows the headings."""
    rows = [tuple(_word(value) for value in row) for row in answer.rows]
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    return "\n".join([*aligned(answer.columns, rows), count])


def answer_csv(answer: Answer) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in answer.columns])
    writer.writerows([[csv_cell(_plain(value)) for value in row] for row in answer.rows])
    return text.getvalue()


def answer_json(answer: Answer) -> dict[str, Any]:
    """Rows as lists, because two columns may have one name."""
    return {
        "columns": list(answer.columns),
        "rows": [[_plain(value) for value in row] for row in answer.rows],
    }


def _word(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", " ")


def _plain(value: Any) -> Any:
    """A value that JSON can say: what it has no word for is written as words."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def ask(store: Store, query: str, *, trusted_only: bool = False) -> Answer:
    """The answer to one SELECT."""
    engine = _duckdb()
    with engine.connect(":memory:") as connection:
        _check_statement(connection, engine, query)
        _fill(connection, store, query, trusted_only)
        for setting in _LOCKED:
            connection.execute(setting)
        try:
            found = connection.execute(query)
            columns = tuple(str(column[0]) for column in found.description)
            return Answer(columns, tuple(tuple(row) for row in found.fetchall()))
        except engine.Error as error:
            raise UserError(_sentence(error)) from error


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise UserError(
            "SQL over evidence needs DuckDB; install it with pip install 'understudy[bench]'."
        ) from error
    return duckdb


def _check_statement(connection: duckdb.DuckDBPyConnection, engine: Any, query: str) -> None:
    try:
        statements = connection.extract_statements(query)
    except engine.Error as error:
        raise UserError(_sentence(error)) from error
    kinds = [statement.type for statement in statements]
    if kinds != [engine.StatementType.SELECT]:
        raise UserError("the query must be one SELECT; evidence can only be read.")


def _sentence(error: Exception) -> str:
    """DuckDB's complaint without its drawing of the query; an unknown name with the known."""
    said = f"the query cannot be answered: {str(error).splitlines()[0].rstrip('.!')}"
    if type(error).__name__ == "CatalogException":
        return f"{said}; the views are {', '.join(VIEWS[:-1])} and {VIEWS[-1]}."
    if type(error).__name__ == "BinderException" and "column" in said:
        return f"{said}; DESCRIBE with the name of a view lists its columns."
    return f"{said}."


def _fill(
    connection: duckdb.DuckDBPyConnection, store: Store, query: str, trusted_only: bool
) -> None:
    """Make the views; those that take long to make only if the query names them."""
    from understudy.bench.evidence.run_tables import run_tables

    runs = store.of_kind("run", trusted_only=trusted_only)
    measurements = store.of_kind("measurement", trusted_only=trusted_only)
    tables = run_tables(runs)
    _create(connection, "runs", tables.runs)
    _create(connection, "metric_rows", tables.metrics)
    _create(connection, "phases", tables.phases)
    connection.execute(_METRICS)
    seldom: Mapping[str, Callable[[], pa.Table]] = {
        "settings": lambda: _arrow(_setting_rows(runs), _SETTINGS),
        "measurements": lambda: _arrow(map(_measurement_row, measurements), _MEASUREMENTS),
        "published": lambda: _arrow(_published_rows(), _PUBLISHED),
    }
    for name, make in seldom.items():
        if re.search(rf"\b({name}|show)\b", query, re.IGNORECASE):
            _create(connection, name, make())
            if name == "published":
                connection.execute("ALTER TABLE published ALTER epsilon TYPE DOUBLE")


def _create(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("given", table)
    connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
    connection.unregister("given")


def _setting_rows(runs: Iterable[StoredFile]) -> Iterable[dict[str, Any]]:
    for file in runs:
        for key, value in file.parsed()["config"]["settings"].items():
            yield {"run": file.name, "key": key, "value": json.dumps(value)}


def _measurement_row(file: StoredFile) -> dict[str, Any]:
    found = {**file.parsed(), "trust": file.trust}
    return {
        name: json.dumps(found[name]) if isinstance(found[name], dict) else found[name]
        for name in _MEASUREMENTS
    }


def _published_rows() -> Iterable[dict[str, Any]]:
    from understudy.bench.published import published

    for figure in published():
        epsilon = None if figure.epsilon is None else str(figure.epsilon)
        yield {**asdict(figure), "epsilon": epsilon}


def _arrow(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pa.Table:
    """Rows as a table, by way of JSON: the quickest road that does not load pandas."""
    import pyarrow as pa
    import pyarrow.json as pj

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])
    lines = "\n".join(json.dumps(row) for row in rows)
    if not lines:
        return schema.empty_table()
    options = pj.ParseOptions(explicit_schema=schema)
    read = pj.ReadOptions(block_size=len(lines) + 1)
    return pj.read_json(pa.BufferReader(lines.encode()), read, options)
