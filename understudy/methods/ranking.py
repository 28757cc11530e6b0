"""Which methods to prefer for some data, by declared facts: the documented order of `ranking.yaml`.

The file is a list; of the entries whose `when` holds (as in rules), whose `public` is whether
public records were given, and whose `gpu`, if it has one, is whether the fit has a GPU, the last
one counts. `order` names methods from the best, `because` says in words what speaks for the first,
and `tuned_on` on which data they were compared: a run on one of these was chosen by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from understudy.methods.rules import Measures


@dataclass(frozen=True)
class Ranking:
    order: tuple[str, ...]
    because: str
    tuned_on: str


def ranking(measures: Measures, *, public: bool = False, gpu: bool = False) -> Ranking:
    """The order for these facts; methods that it does not name come after it."""
    held = [
        entry
        for entry in _entries()
        if measures.meet(entry.get("when", {}))
        and entry.get("public", False) == public
        and entry.get("gpu", gpu) == gpu
    ]
    last = held[-1]
    return Ranking(tuple(last["order"]), str(last["because"]), str(last["tuned_on"]))


@cache
def _entries() -> list[Mapping[str, Any]]:
    import yaml

    text = files("understudy.methods").joinpath("ranking.yaml").read_text(encoding="utf-8")
    found: list[Mapping[str, Any]] = yaml.safe_load(text)
    return found
