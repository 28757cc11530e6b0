"""Keys: what each phase of a run depends on, as one hash; equal keys are the same work.

Evaluation hangs on sampling and sampling on fitting, so a changed protocol never fits
again: private records are used, and paid for, only when something of the fit changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.bench.suite.cell import Cell
from understudy.bench.suite.method_lookup import Lookup, is_declared_public, made_up_schema
from understudy.bench.work.code_digest import code_digest
from understudy.data.catalog import catalog
from understudy.data.schema import Attribute
from understudy.data.weights import weights_catalog
from understudy.data.weights_file import digest_of
from understudy.errors import PrivacyError
from understudy.methods.config import config_to_json
from understudy.methods.contract import Facts, Method
from understudy.privacy.ledger.account_book import book_name
from understudy.privacy.plan.exact_or_float import choose_noise
from understudy.privacy.plan.mechanisms import EXACT
from understudy.run.public_options import name_and_source

FIT_VERSION, EVALUATE_VERSION = 1, 1
"""Raised by hand when a change outside a method's own code (the door, loaders, metrics) makes
earlier fits or figures wrong: then they are done again. A raised fit version spends again."""

EVALUATION_SEED = 0
"""The seed of every evaluation in `bench`: seeds of cells are those of methods."""

_AMPLE = 10**9
_USUAL_SHAPE = (3, 32, 32)
_USUAL_CLASSES = tuple("0123456789")

_FIT_FIELDS = ("epsilon", "delta", "seed", "label", "unit", "size", "channels", "limit")


@dataclass(frozen=True)
class Keys:
    """sha256 of all that goes into each phase, as 64 hexadecimal digits."""

    fit: str
    sample: str
    evaluate: str


def phase_keys(cell: Cell, *, data: str | None, lookup: Lookup | None = None) -> Keys:
    """The keys of a cell's three phases. Neither its device nor where it lies is in them.

    data: the content hash of a dataset that is declared public, else None. Keys stand in
        evidence, so a hash of private records is refused.
    lookup: shared by callers who ask for many cells.
    """
    if data is not None and not is_declared_public(cell.dataset):
        raise PrivacyError(
            f"{cell.dataset} is not declared public; a hash of its records may not enter a key."
        )
    lookup = lookup or Lookup()
    method = lookup.method(cell.method)
    fit = _hash(
        "fit",
        {
            "method": method.info.name,
            "code": code_digest(method),
            "config": config_to_json(lookup.config(cell).config),
            "dataset": book_name(cell.dataset),
            "data": data,
            "public": _public(cell, method),
            **_only_if_any(
                hide=list(cell.hide),
                keep=list(cell.keep),
                weights=digests_of_weights(cell, method),
            ),
            **{name: getattr(cell, name) for name in _FIT_FIELDS},
            **_noise_by_default(method, cell, lookup),
            **_later_than_first(FIT_VERSION),
        },
    )
    sample = _hash("sample", {"fit": fit, "samples": cell.samples})
    protocol = lookup.protocol(cell.protocol).to_json()
    measured = {"sample": sample, "protocol": protocol, **_later_than_first(EVALUATE_VERSION)}
    return Keys(fit, sample, _hash("evaluate", measured))


def _public(cell: Cell, method: Method) -> str | list[str] | None:
    """Public data by name. A method's only public data stand alone, as they always did."""
    only = [entry.name for entry in method.info.public_records][:1]
    named = [name_and_source(words) for words in cell.public]
    if len(named) == 1 and named[0][0] in (None, *only):
        return book_name(named[0][1])
    return sorted(f"{name or ''}={book_name(source)}" for name, source in named) or None


def digests_of_weights(cell: Cell, method: Method) -> dict[str, str]:
    """Public weights by the method's name for them, its own choice among them: the SHA-256 of each;
    of what cannot be read, the words, as its run will say what is wrong."""
    known = method.info.public_weights
    alone = known[0].name if len(known) == 1 else ""
    usual = {entry.name: entry.default for entry in known if entry.default is not None}
    given = {name or alone: s for name, s in map(name_and_source, cell.weights)}
    return {name: _digest_of_weights(source) for name, source in {**usual, **given}.items()}


def _only_if_any(**found: list[str] | dict[str, str]) -> dict[str, list[str] | dict[str, str]]:
    """What is not empty: keys were made before there was any of these."""
    return {name: some for name, some in found.items() if some}


def _digest_of_weights(source: str) -> str:
    if source in weights_catalog():
        return weights_catalog()[source].sha256
    path = Path(source).expanduser()
    return digest_of(path) if path.is_file() else source


def _noise_by_default(method: Method, cell: Cell, lookup: Lookup) -> dict[str, str]:
    """Plans of one-shot releases have exact noise by default; they once had the float kind, as
    others do, and those keys were made before there was a choice."""
    spend = method.spend(lookup.config(cell).config, _ample_facts(method, cell))
    return {"noise": EXACT} if choose_noise(spend, None, cell.method) == EXACT else {}


def _ample_facts(method: Method, cell: Cell) -> Facts:
    """Facts under which any settings can be planned: the arithmetic does not depend on them."""
    entry = catalog().get(cell.dataset)
    shape = _USUAL_SHAPE if entry is None else entry.shape
    schema = made_up_schema(cell, method, Attribute("label", _USUAL_CLASSES))
    return Facts(_AMPLE, method.info.declared_counts(_AMPLE), shape, schema)


def _later_than_first(version: int) -> dict[str, int]:
    """The first version is left out: keys were made before there were versions."""
    return {"version": version} if version > 1 else {}


def _hash(phase: str, inputs: Mapping[str, Any]) -> str:
    content = {"phase": phase, **inputs}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
