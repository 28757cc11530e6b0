"""The table for other programs: CSV, Markdown, LaTeX. Nothing in a name can break out."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from understudy.bench.tables.benchmark_table import BenchmarkTable, Block
from understudy.bench.tables.columns import Column, epsilon_words
from understudy.bench.tables.spreadsheet import csv_cell
from understudy.bench.tables.table_text import text_table
from understudy.bench.tables.table_words import (
    CHANCE,
    DIRECTIONS,
    HOW_TO_READ,
    NO_ENTRY,
    REFERENCE,
    Legend,
    Row,
    notes,
    rows,
    title,
    unit_words,
)

_BEST = "*"
CSV_COLUMNS = (
    *("dataset", "metric", "direction", "unit", "epsilon", "variant", "protocol", "protocol_id"),
    *("stamp", "method", "source", "detail", "trusted", "limited", "sound", "reason"),
    *("value", "low", "high", "spread", "seeds", "best", "failures"),
)
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "\n": " ",
}


def csv_table(table: BenchmarkTable) -> str:
    """One line for each figure, full precision; real data and chance are methods of their own."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for block in table.blocks:
        for values in _csv_rows(block):
            writer.writerow([csv_cell(values.get(name)) for name in CSV_COLUMNS])
    for run in table.failed:
        values = {
            **{"dataset": run.dataset, "epsilon": run.epsilon, "protocol": run.protocol},
            **{"method": run.method, "trusted": run.trusted},
            "failures": f"seed {run.seed}: {run.reason}",
        }
        writer.writerow([csv_cell(values.get(name)) for name in CSV_COLUMNS])
    return text.getvalue()


def _csv_rows(block: Block) -> Iterator[dict[str, Any]]:
    facts = {"direction": block.facts.direction, "unit": block.facts.unit}
    for (line, column), entry in block.entries.items():
        failures = "; ".join(entry.failures) or ("failed" if entry.value is None else None)
        yield {**vars(column), **facts, **vars(line), **vars(entry), "failures": failures}
    for name, values in ((REFERENCE, block.reference), (CHANCE, block.chance)):
        for column, value in values.items():
            yield {**vars(column), **facts, "method": name, "value": value}


def markdown_table(table: BenchmarkTable) -> str:
    """One heading and table for each block, and the notes as a list."""
    legend = Legend.of(table)
    parts = [f"### {_markdown(title(b))}\n\n{_markdown_block(b, legend)}" for b in table.blocks]
    parts.append("\n".join(f"- {_markdown(line)}" for line in _beneath(table, legend)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_block(block: Block, legend: Legend) -> str:
    heads = ["method", *(_column_words(column, legend) for column in block.columns)]
    lines = [_markdown_line([_markdown(head) for head in heads])]
    lines.append(_markdown_line(["---"] * len(heads)))
    for row in rows(block):
        cells = [_bold(cell, _markdown, "**{}**") for cell in _cells(row, block.columns)]
        lines.append(_markdown_line([_markdown(row.name), *cells]))
    return "\n".join(lines)


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(words: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", words.replace("\n", " "))


def latex_table(table: BenchmarkTable) -> str:
    """One `table` for each block, with nothing beyond plain LaTeX; notes as an `itemize`."""
    legend = Legend.of(table)
    parts = [_latex_block(block, legend) for block in table.blocks]
    items = "\n".join(rf"\item {latex(line)}" for line in _beneath(table, legend))
    if items:
        parts.append(f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}")
    return "\n\n".join(parts) + "\n"


def _latex_block(block: Block, legend: Legend) -> str:
    heads = ["method", *(_column_words(column, legend) for column in block.columns)]
    lines = [" & ".join(latex(head) for head in heads)]
    for row in rows(block):
        cells = [_bold(cell, latex, r"\textbf{{{}}}") for cell in _cells(row, block.columns)]
        lines.append(" & ".join([latex(row.name), *cells]))
    # Braces: a bracket after \\ would be taken for its argument.
    head, *body = [rf"{{{line}}} \\" if line.startswith("[") else rf"{line} \\" for line in lines]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{latex(_caption(block))}}}",
            rf"\begin{{tabular}}{{l{'r' * len(block.columns)}}}",
            *(r"\hline", head, r"\hline", *body, r"\hline"),
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _caption(block: Block) -> str:
    parts = (block.metric, unit_words(block.facts), DIRECTIONS[block.facts.direction])
    return f"{block.dataset}: {', '.join(filter(None, parts))}"


def latex(words: str) -> str:
    """Words that LaTeX prints as they are.

    >>> latex("100% of a_b & {c}")
    '100\\\\% of a\\\\_b \\\\& \\\\{c\\\\}'
    """
    return "".join(_LATEX.get(character, character) for character in words)


def _column_words(column: Column, legend: Legend) -> str:
    return " ".join(
        filter(None, (epsilon_words(column.epsilon), column.variant, legend.mark(column)))
    )


def _cells(row: Row, columns: Sequence[Column]) -> list[str]:
    return [row.cells.get(column, NO_ENTRY) for column in columns]


def _bold(cell: str, escape: Any, form: str) -> str:
    """The best of a column is bold here, where a terminal has a star."""
    if _BEST not in cell:
        return str(escape(cell))
    return form.format(escape(cell.replace(_BEST, "")))


def _beneath(table: BenchmarkTable, legend: Legend) -> list[str]:
    how = HOW_TO_READ.replace("* best of its column", "Bold: best of its column")
    return [*legend.lines(), *([how] if table.blocks else []), *notes(table)]


WRITERS: Mapping[str, Callable[[BenchmarkTable], str]] = {
    "text": text_table,
    "markdown": markdown_table,
    "csv": csv_table,
    "latex": latex_table,
}
"""Every form of the table by its name."""
