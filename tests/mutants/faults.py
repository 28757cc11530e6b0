"""The list of planted faults, read from the data files beside this one."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from tests.mutants.patches import Edit

FOLDER = Path(__file__).parent / "faults"
_FIELDS = {"name", "stands_for", "edits", "test", "fails_with"}


@dataclass(frozen=True)
class Fault:
    """One way to break a claim, and the ordinary test that must then fail.

    name: what is wrong, in words; unique.
    stands_for: the published error, or the rule of ours, that it breaks.
    catalogue: where it stands in the maintainers' lists of published errors (methods 23,
        DPImageBench 6), if it does.
    edits: the patch.
    test: the node id of the test that must fail.
    fails_with: words that must stand in the failure, so that it fails for this reason.
    """

    name: str
    stands_for: str
    edits: tuple[Edit, ...]
    test: str
    fails_with: str
    catalogue: str = ""


def all_faults() -> list[Fault]:
    """Every planted fault, in the order of the files; a name that comes twice is an error."""
    faults = [
        _fault(entry, path.name)
        for path in sorted(FOLDER.glob("*.yaml"))
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))
    ]
    names = [fault.name for fault in faults]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"planted faults share a name: {', '.join(twice)}")
    return faults


def find_faults(names: list[str]) -> list[Fault]:
    """The faults with these names, or all of them."""
    known = {fault.name: fault for fault in all_faults()}
    unknown = sorted(set(names) - set(known))
    if unknown:
        near = get_close_matches(unknown[0], known, 1)
        hint = f"did you mean {near[0]!r}?" if near else "docs/claims.md lists them."
        raise ValueError(f"no planted fault {unknown[0]!r}; {hint}")
    return [known[name] for name in names] if names else list(known.values())


def _fault(entry: dict[str, Any], file: str) -> Fault:
    if set(entry) - {"catalogue"} != _FIELDS:
        raise ValueError(f"{file}: {entry.get('name')!r} must have {', '.join(sorted(_FIELDS))}")
    edits = tuple(Edit.parse(edit["where"], edit["old"], edit["new"]) for edit in entry["edits"])
    texts = {field: str(entry[field]) for field in _FIELDS - {"edits"}}
    return Fault(edits=edits, catalogue=str(entry.get("catalogue", "")), **texts)
