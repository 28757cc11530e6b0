"""Kinds of machines, by rates that were measured on one of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from understudy.errors import UserError, did_you_mean
from understudy.methods.pace import Machine, Rate

CPU, GPU = "cpu", "h200"
"""The kinds by which processors, and GPUs, are judged that are not named."""


@cache
def machines() -> Mapping[str, Machine]:
    """Every kind of machine that has rates."""
    text = files("understudy.methods").joinpath("machines.json").read_text(encoding="utf-8")
    return {kind: _machine(kind, entry) for kind, entry in json.loads(text).items()}


def machine(kind: str) -> Machine:
    known = machines()
    wanted = kind.strip().lower()
    if wanted not in known:
        raise UserError(f"--device-kind {kind!r} has no rates; {did_you_mean(wanted, known)}")
    return known[wanted]


def _machine(kind: str, entry: Mapping[str, object]) -> Machine:
    rates = entry["rates"]
    assert isinstance(rates, dict)
    rest = {key: value for key, value in entry.items() if key != "rates"}
    return Machine(kind=kind, rates={name: Rate(**r) for name, r in rates.items()}, **rest)  # type: ignore[arg-type]
