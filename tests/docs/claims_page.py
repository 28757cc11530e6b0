"""docs/claims.md, printed from `claims.yaml` and the list of planted faults.

`python -m tests.docs.claims_page` writes the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import REPOSITORY
from tests.mutants.faults import Fault, all_faults

SOURCE = Path(__file__).with_name("claims.yaml")
PAGE = REPOSITORY / "docs" / "claims.md"


@dataclass(frozen=True)
class Promise:
    """What is promised, what that assumes, the tests that lock it, the faults that prove them."""

    title: str
    promise: str
    assumes: str
    tests: tuple[str, ...]
    faults: tuple[str, ...]


def source() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    return loaded


def promises() -> list[Promise]:
    return [
        Promise(
            entry["title"],
            entry["promise"].strip(),
            entry["assumes"].strip(),
            tuple(entry["tests"]),
            tuple(entry["faults"]),
        )
        for entry in source()["promises"]
    ]


def page() -> str:
    """The whole page, as it must stand in docs/claims.md."""
    told = source()
    faults = {fault.name: fault for fault in all_faults()}
    pieces = ["# Claims", told["introduction"].strip()]
    pieces += [_section(s["heading"], s["text"]) for s in told["before"]]
    pieces.append(_section("The promises, one by one", _preface(len(faults))))
    pieces += [_promise(promise, faults) for promise in promises()]
    pieces += [_section(s["heading"], s["text"]) for s in told["after"]]
    return "\n\n".join(pieces) + "\n"


def _preface(count: int) -> str:
    return f"""\
The ten rules of the house come first, then what their figures rest on. Under each stand what it
assumes, the tests that lock it, and the **planted faults** that prove those tests: patches of a
line or two, most of them mistakes of published code, that are applied in memory, one at a time.
The test that is named must then fail, by the assertion meant for it; a patch that no longer
applies fails the build. There are {count}. `make mutants` plants them all and prints survivors by
name."""


def _section(heading: str, text: str) -> str:
    return f"## {heading}\n\n{text.strip()}"


def _promise(promise: Promise, faults: Mapping[str, Fault]) -> str:
    tests = ", ".join(f"`{test}`" for test in promise.tests)
    rows = [_row(faults[name]) for name in promise.faults]
    return "\n".join(
        [
            f"### {promise.title}",
            "",
            promise.promise,
            "",
            f"Assumes: {promise.assumes}",
            "",
            f"Locked by {tests}.",
            "",
            "| planted fault | stands for | caught by |",
            "|---|---|---|",
            *rows,
        ]
    )


def _row(fault: Fault) -> str:
    test = fault.test.partition("[")[0]
    return f"| {fault.name} | {fault.stands_for} | `{test}` |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
