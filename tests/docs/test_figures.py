"""Docs quote only evidence: the table of figures is the one that the evidence files give."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def row(evidence: dict[str, object]) -> str:
    """One run as the methods page shows it."""
    result, seconds = evidence["result"], evidence["seconds"]
    assert isinstance(result, dict)
    assert isinstance(seconds, dict)
    rows = {
        (r["metric"], r["variant"]): r for r in result["metrics"]["rows"] if r["status"] == "ok"
    }
    cells = []
    for variant in ("mlp", "cnn"):
        found = rows["gen2real accuracy", variant]
        low, high = 100 * found["low"], 100 * found["high"]
        cells.append(f"{100 * found['value']:.1f}% ({low:.1f} to {high:.1f})")
    real = 100 * rows["gen2real accuracy", "cnn"]["reference"]
    command = str(evidence["command"]).split()
    dataset, method = command[2], command[command.index("--method") + 1]
    figures = (dataset, f"`{method}`", f"{result['epsilon']:.3f}", *cells, f"{real:.1f}%")
    machine = (f"{seconds['synthesize']:.0f} s", f"{evidence['peak_gigabytes']:.1f} GB")
    return f"| {' | '.join((*figures, *machine))} |"


def test_the_methods_page_shows_what_was_measured() -> None:
    page = (ROOT / "docs" / "methods.md").read_text()
    files = sorted((ROOT / "benchmarks" / "evidence").glob("*-epsilon*.json"))
    expected = [row(json.loads(file.read_text())) for file in files]
    assert expected
    missing = [line for line in expected if line not in page.splitlines()]
    assert not missing, "\n".join(["docs/methods.md lacks", *missing])
