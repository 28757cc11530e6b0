"""Whether two names of sources lead to the same data, by where they lie; nothing is read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from understudy.data.catalog import DATA_VARIABLE, catalog
from understudy.data.sources.hub import PREFIX
from understudy.errors import home_expanded


@dataclass(frozen=True)
class _Places:
    """All that one source may be called, and the folder or file where it lies."""

    names: frozenset[str]
    paths: frozenset[Path]


def lead_to_the_same(first: str, second: str) -> bool:
    """Whether one name leads to data of the other, wholly or in part.

    A catalog name, its folder under $UNDERSTUDY_DATA and its Hub name are one; so are all
    ways to write a path, and a folder and what lies in it. A copy elsewhere is not seen.
    """
    one, other = _places(first), _places(second)
    within = (a in (b, *b.parents) or b in a.parents for a in one.paths for b in other.paths)
    return bool(one.names & other.names) or any(within)


def _places(source: str) -> _Places:
    if source in catalog():
        hub, root = catalog()[source].hub, os.environ.get(DATA_VARIABLE)
        names = {source} if hub is None else {source, _hub_name(hub)}
        return _Places(frozenset(names), _paths(Path(root) / source) if root else frozenset())
    if source.startswith(PREFIX):
        return _Places(frozenset({_hub_name(source.removeprefix(PREFIX))}), frozenset())
    return _Places(frozenset(), _paths(home_expanded(source)))


def _hub_name(repository: str) -> str:
    """The repository, whichever of its configurations is read; the Hub ignores its case."""
    return PREFIX + repository.partition(":")[0].casefold()


def _paths(path: Path) -> frozenset[Path]:
    return frozenset({path.resolve()})
