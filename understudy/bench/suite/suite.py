"""Suites: short YAML files that say which runs there shall be.

A suite has up to four keys. `grid` is a cell whose fields may be lists: every combination
is a run; a list of such grids is a grid too. `defaults` are fields of every run,
`overrides` change some of them, and `extends` begins with another suite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from understudy.bench.suite.cell import Suite
from understudy.bench.suite.cells import (
    READERS,
    SETTINGS,
    Block,
    draft_cells,
    finish_cells,
    override,
)
from understudy.bench.suite.suite_text import LARGEST, Text, read_text
from understudy.errors import UserError, did_you_mean

_KEYS = ("extends", "defaults", "grid", "overrides")
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class _Layers:
    """A suite with all that it extends laid under it; rules of its own come last."""

    defaults: tuple[Mapping[str, Text], ...] = ()
    grid: tuple[Block, ...] = ()
    inherited: tuple[Text, ...] = ()
    own: tuple[Text, ...] = ()


def suite_names() -> tuple[str, ...]:
    """The suites that ship with the package.

    >>> suite_names()
    ('budgets', 'diffusion', 'mnist', 'smoke')
    """
    return tuple(sorted(p.stem for p in _shipped().iterdir() if p.suffix == ".yaml"))


def load_suite(
    name_or_path: str | Path, limit: int | None = None, preset: str | None = None
) -> Suite:
    """A suite that ships with the package, by name, or one from a YAML file.

    Everything is checked that can be without data: names, types, settings, and that no
    run is there twice. Methods are imported for that.

    limit, preset: override those of every cell.
    """
    if limit is not None and limit < 2:
        raise UserError(f"--limit must be at least 2, not {limit}.")
    if limit is not None and limit > LARGEST:
        raise UserError(f"--limit must be at most {LARGEST}, not {limit}.")
    path = _find(str(name_or_path), None)
    layers = _layers(path, ())
    if not layers.grid:
        raise UserError(f"{path} has no grid; it must say which methods, datasets and epsilons.")
    drafts = draft_cells(layers.defaults, layers.grid)
    for rule in layers.inherited:
        drafts, _ = override(drafts, rule)
    for rule in layers.own:
        drafts, touched = override(drafts, rule)
        if not touched:
            raise rule.error("this override is for no run of the suite; see its `where`.")
    source = None if path.parent == _shipped() else path
    return Suite(path.stem, finish_cells(drafts, limit, preset), source)


def _find(words: str, within: Text | None) -> Path:
    """The file of a suite; one that another extends lies beside it."""
    if Path(words).suffix in _SUFFIXES:
        path = Path(words if within is None else within.beside(words))
        if not path.is_file():
            raise UserError(f"there is no suite file {path}.")
        return path
    if words not in suite_names():
        raise UserError(
            f"no suite {words!r}; {did_you_mean(words, suite_names())} "
            "A suite of your own is given by its file, with .yaml."
        )
    return _shipped() / f"{words}.yaml"


def _shipped() -> Path:
    return Path(str(files("understudy.bench.suite").joinpath("suites")))


def _layers(path: Path, above: Sequence[Path]) -> _Layers:
    whole = read_text(path).mapping("a suite", _KEYS)
    keys = {key: text for key, text in whole.items() if not text.is_none}
    parent = _Layers()
    if "extends" in keys:
        parent = _parent(keys["extends"], [*above, path])
    own = keys["overrides"].entries("overrides") if "overrides" in keys else ()
    return _Layers(
        defaults=(*parent.defaults, *_defaults(keys.get("defaults"))),
        grid=_grid(keys["grid"], parent.grid) if "grid" in keys else parent.grid,
        inherited=(*parent.inherited, *parent.own),
        own=own,
    )


def _parent(extends: Text, chain: Sequence[Path]) -> _Layers:
    with extends.naming():
        path = _find(extends.text("extends"), extends)
    if path.resolve() in [one.resolve() for one in chain]:
        way = " -> ".join(one.name for one in (*chain, path))
        raise extends.error(f"this suite extends itself ({way}).")
    return _layers(path, chain)


def _defaults(text: Text | None) -> tuple[Mapping[str, Text], ...]:
    return () if text is None else (text.mapping("defaults", (*READERS, SETTINGS)),)


def _grid(text: Text, parent: Sequence[Block]) -> tuple[Block, ...]:
    """A list of grids replaces the parent's; a single one changes fields of each of them."""
    own = [
        Block(entry, entry.mapping("a grid", (*READERS, SETTINGS)))
        for entry in text.entries("grid")
    ]
    if text.is_list or not parent:
        return tuple(own)
    return tuple(Block(own[0].origin, {**old.fields, **own[0].fields}) for old in parent)
