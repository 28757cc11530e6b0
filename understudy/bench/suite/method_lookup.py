"""Methods and protocols by name, each found once for all cells of a suite."""

from __future__ import annotations

from typing import Any

from understudy.bench.suite.cell import Cell
from understudy.data.catalog import catalog
from understudy.data.schema import Attribute, Schema
from understudy.evaluate.protocol import Protocol, load_protocol
from understudy.methods.config import ResolvedConfig, resolve_config
from understudy.methods.contract import Method
from understudy.methods.registry import get_method


class Lookup:
    """What cells name, as objects. Keeps what it found: use one for one piece of work."""

    def __init__(self) -> None:
        self._methods: dict[str, Method] = {}
        self._protocols: dict[str, Protocol] = {}
        self._configs: dict[tuple[Any, ...], ResolvedConfig] = {}

    def method(self, reference: str) -> Method:
        if reference not in self._methods:
            self._methods[reference] = get_method(reference)
        return self._methods[reference]

    def protocol(self, reference: str) -> Protocol:
        if reference not in self._protocols:
            self._protocols[reference] = load_protocol(reference)
        return self._protocols[reference]

    def config(self, cell: Cell) -> ResolvedConfig:
        """The cell's method settings with the preset applied, as its run will have them."""
        preset_for = cell.dataset if is_declared_public(cell.dataset) else None
        wanted = (cell.method, preset_for, cell.epsilon, cell.settings)
        if wanted not in self._configs:
            method = self.method(cell.method)
            self._configs[wanted] = resolve_config(method, *wanted[1:])
        return self._configs[wanted]


def made_up_schema(cell: Cell, method: Method, label: Attribute) -> Schema:
    """A schema with the roles that a cell gives, for planning before its data are loaded.

    A method that hides gets something to hide; that the cell names nothing, its run will say.
    """
    hide = cell.hide or (("hidden",) if method.info.hides else ())
    others = dict.fromkeys(name for name in (*hide, *cell.keep) if name != label.name)
    attributes = (label, *(Attribute(name, label.classes) for name in others))
    return Schema(attributes, label.name, hide, cell.keep)


def is_declared_public(dataset: str) -> bool:
    """Whether a dataset is one of the catalog that says of itself that it is public."""
    entry = catalog().get(dataset)
    return entry is not None and entry.public
