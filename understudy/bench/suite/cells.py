"""From the blocks of a suite to its cells: every combination, overrides, checks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from understudy.bench.suite.cell import Cell
from understudy.bench.suite.method_lookup import Lookup
from understudy.bench.suite.suite_text import Text
from understudy.bench.work.phase_keys import phase_keys
from understudy.data.catalog import catalog
from understudy.data.sources.hub import PREFIX
from understudy.data.weights import weights_catalog
from understudy.errors import UserError, did_you_mean
from understudy.methods.config import describe_config

SETTINGS, WHERE = "settings", "where"
_MOST_CELLS = 100_000
_REQUIRED = {"method": "dp-merf", "dataset": "digits", "epsilon": "1 (null: no guarantee)"}


@dataclass(frozen=True)
class Block:
    """One grid: a line to name in errors, and a value or a list for each field."""

    origin: Text
    fields: Mapping[str, Text]


@dataclass(frozen=True)
class Draft:
    """A cell in the making: values as read, and where each came from."""

    origin: Text
    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Text] = field(default_factory=dict)
    settings: Mapping[str, Text] = field(default_factory=dict)

    def place(self, name: str) -> Text:
        return self.places.get(name, self.origin)

    def changed(self, texts: Mapping[str, Text]) -> Draft:
        """With these fields on top; settings are laid over those that are there."""
        plain = {name: text for name, text in texts.items() if name != SETTINGS}
        own = texts[SETTINGS].mapping(SETTINGS) if SETTINGS in texts else {}
        return replace(
            self,
            values={**self.values, **{name: READERS[name](text) for name, text in plain.items()}},
            places={**self.places, **plain},
            settings={**self.settings, **own},
        )


def draft_cells(defaults: Sequence[Mapping[str, Text]], blocks: Sequence[Block]) -> list[Draft]:
    """Every combination of every block; the first field of a block varies slowest."""
    values = {f.name: f.default for f in fields(Cell) if f.default is not MISSING}
    values.pop(SETTINGS)
    drafts = []
    for block in blocks:
        start = Draft(block.origin, values)
        for layer in defaults:
            start = start.changed(layer)
        choices = [[(n, e) for e in t.entries(n)] for n, t in block.fields.items()]
        for chosen in itertools.product(*choices):
            drafts.append(start.changed(dict(chosen)))
            if len(drafts) > _MOST_CELLS:
                raise block.origin.error(f"the grid makes more than {_MOST_CELLS:,} runs.")
    return drafts


def override(drafts: Sequence[Draft], rule: Text) -> tuple[list[Draft], bool]:
    """The drafts after one override, and whether it touched any."""
    texts = rule.mapping("an override", {WHERE, *READERS, SETTINGS})
    if WHERE not in texts or len(texts) < 2:
        raise rule.error(
            "an override says where (method: dp-gan, say) and what changes there (size: 16, say)."
        )
    where = texts.pop(WHERE).mapping(WHERE, READERS)
    wanted = {n: {READERS[n](e) for e in t.entries(n)} for n, t in where.items()}
    hits = [all(d.values.get(n) in some for n, some in wanted.items()) for d in drafts]
    after = [d.changed(texts) if hit else d for d, hit in zip(drafts, hits, strict=True)]
    return after, any(hits)


def finish_cells(drafts: Sequence[Draft], limit: int | None) -> tuple[Cell, ...]:
    """The cells, each checked as far as can be without data; none may be there twice."""
    lookup = Lookup()
    cells: list[Cell] = []
    seen: dict[str, Draft] = {}
    for draft in drafts:
        cell = _cell(draft, lookup)
        if limit is not None:
            cell = replace(cell, limit=limit)
        work = phase_keys(cell, data=None, lookup=lookup).evaluate
        if work in seen:
            raise _twice(cell, seen[work].origin, draft.origin)
        seen[work] = draft
        cells.append(cell)
    return tuple(cells)


def _cell(draft: Draft, lookup: Lookup) -> Cell:
    for name, like in _REQUIRED.items():
        if name not in draft.values:
            raise draft.origin.error(f"this grid gives no {name}; add one, like {name}: {like}.")
    settings = tuple(f"{key}={_written(draft.settings[key])}" for key in sorted(draft.settings))
    cell = Cell(**draft.values, settings=settings)
    with draft.place("method").naming():
        known = {s.name for s in describe_config(lookup.method(cell.method).Config)}
    for key, text in draft.settings.items():
        if key not in known:
            raise text.error(f"{cell.method} has no setting {key!r}; {did_you_mean(key, known)}")
    with draft.place("protocol").naming():
        lookup.protocol(cell.protocol)
    with draft.origin.naming():
        cell.run_config()
    _check_settings(draft, cell, lookup)
    return cell


def _check_settings(draft: Draft, cell: Cell, lookup: Lookup) -> None:
    """Refuse values that the method refuses, at the line of the setting that it names."""
    try:
        lookup.config(cell)
    except UserError as error:
        named = [text for key, text in draft.settings.items() if f"'{key}'" in str(error)]
        raise (named or [draft.origin])[0].error(str(error)) from error


def _written(text: Text) -> str:
    """A setting's value as `--set` takes it."""
    if text.is_none:
        return "none"
    return ",".join(entry.written for entry in text.entries(SETTINGS))


def _twice(cell: Cell, first: Text, second: Text) -> UserError:
    if first.place == second.place:
        return first.error(
            f"this grid makes the run {cell.title!r} twice; two values are the same."
        )
    also = f"line {first.line}" if first.file == second.file else first.place
    return second.error(f"the run {cell.title!r} is there already, from {also}; keep one.")


def _method(text: Text) -> str:
    words = text.text("method")
    file, _, name = words.rpartition(":")
    return f"{text.beside(file)}:{name}" if file.endswith(".py") else words


def _dataset(text: Text) -> str:
    """A catalog name, `hf:owner/name`, or a path beside the suite, which must be there."""
    words = text.text("dataset")
    if words in catalog() or words.startswith(PREFIX):
        return words
    path = text.beside(words)
    if Path(path).exists():
        return path if "/" in path else f"./{path}"
    if "/" in words:
        raise text.error(f"{words} does not exist beside the suite, in {Path(path).parent}.")
    raise text.error(
        f"no dataset {words!r}, and no folder of that name beside the suite; "
        f"{did_you_mean(words, catalog())}"
    )


def _weights(text: Text) -> str:
    """A name of the catalog of weights, or a file beside the suite, which must be there."""
    words = text.text("weights")
    if words in weights_catalog():
        return words
    path = text.beside(words)
    if Path(path).is_file():
        return path if "/" in path else f"./{path}"
    raise text.error(
        f"no weights {words!r}, and no file of that name beside the suite; "
        f"{did_you_mean(words, weights_catalog())}"
    )


def _inputs(what: str, read: Callable[[Text], str]) -> Callable[[Text], tuple[str, ...]]:
    """One public input, or several by name (`faces: celeba`), or none."""

    def read_all(text: Text) -> tuple[str, ...]:
        if text.is_none:
            return ()
        if not text.is_mapping:
            return (read(text),)
        return tuple(f"{name}={read(one)}" for name, one in sorted(text.mapping(what).items()))

    return read_all


def _protocol(text: Text) -> str:
    """A name, or a file beside the suite, which must be there."""
    words = text.text("protocol")
    if Path(words).suffix not in (".yaml", ".yml"):
        return words
    path = text.beside(words)
    if not Path(path).is_file():
        raise text.error(f"there is no protocol file {path}.")
    return path


def _epsilon(text: Text) -> float | None:
    return None if text.is_none else _between("epsilon", 0.0, None)(text)


def _channels(text: Text) -> int:
    value = text.whole("channels", 1)
    if value not in (1, 3):
        raise text.error(f"channels must be 1 (grey) or 3 (colour), not {value}.")
    return value


def _device(text: Text) -> str:
    """Not whether it is here: a run may be packed for another machine."""
    words = text.text("device")
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", words):
        raise text.error(f"device must be auto, cpu or cuda, not {words!r}.")
    return words


def _between(name: str, above: float, below: float | None) -> Callable[[Text], float]:
    def read(text: Text) -> float:
        value = text.number(name)
        if not (value > above and (below is None or value < below)):
            top = "" if below is None else f" and below {below:g}"
            raise text.error(f"{name} must be above {above:g}{top}, not {text.written}.")
        return value

    return read


def _optional(read: Callable[[Text], Any]) -> Callable[[Text], Any]:
    return lambda text: None if text.is_none else read(text)


def _words(name: str) -> Callable[[Text], str]:
    return lambda text: text.text(name)


def _by_comma(name: str) -> Callable[[Text], tuple[str, ...]]:
    """`A,B` as names: a list would be several runs."""

    def read(text: Text) -> tuple[str, ...]:
        words = () if text.is_none else text.text(name).split(",")
        return tuple(word.strip() for word in words if word.strip())

    return read


def _whole(name: str, least: int) -> Callable[[Text], int]:
    return lambda text: text.whole(name, least)


READERS: Mapping[str, Callable[[Text], Any]] = {
    "method": _method,
    "dataset": _dataset,
    "epsilon": _epsilon,
    "delta": _between("delta", 0.0, 1.0),
    "seed": _whole("seed", 0),
    "protocol": _protocol,
    "samples": _optional(_whole("samples", 1)),
    "label": _optional(_words("label")),
    "unit": _optional(_words("unit")),
    "size": _optional(_whole("size", 1)),
    "channels": _optional(_channels),
    "hide": _by_comma("hide"),
    "keep": _by_comma("keep"),
    "public": _inputs("public", _dataset),
    "weights": _inputs("weights", _weights),
    "limit": _optional(_whole("limit", 2)),
    "device": _device,
}
"""How each field of a cell is read; what a reader refuses, it refuses with the line."""
