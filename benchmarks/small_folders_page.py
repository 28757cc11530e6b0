"""Write the measured part of docs/when-it-is-poor.md from the evidence files.

    python benchmarks/small_folders_page.py

Everything below the heading is replaced; a measurement that is not there is named as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from page_tables import Maker, below, blocks_of, table

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE, PAGE = ROOT / "benchmarks" / "evidence", ROOT / "docs" / "when-it-is-poor.md"
HEADING = "## What was measured on small folders"
_INTRODUCTION = """\
Balanced accuracy on pictures from elsewhere, of classifiers that learnt from the stand-in alone, at
epsilon 10. Each folder is made of public data by `benchmarks/small_folders.py`; none of them was
used to choose a method or a setting. The persons of the second are invented: 1 to 4 pictures each,
at random."""
_FOLDERS = {
    "scans": "4,708 chest scans of mixed sizes (PneumoniaMNIST), 2 classes",
    "faces": "3,000 faces (FairFace, gender), of invented persons",
    "things": "2,500 pictures of four classes of CIFAR-10",
}
_CHOICES = ("dp-merf", "dp-gan", "recommended")


def main() -> None:
    below(PAGE, HEADING, section(EVIDENCE))


def section(folder: Path) -> str:
    makers: dict[str, Maker] = {
        "small-folders": _figures,
        "forecasts-cpu": _forecasts,
        "tuning-small-folders": _tuning,
    }
    return "\n\n".join([HEADING, _INTRODUCTION, *blocks_of(folder, makers)]) + "\n"


def _figures(result: dict[str, Any]) -> list[str]:
    """By the classifier that learns most from real records, as the verdict judges."""
    heading = ("folder", "guessing", *(_default(c) for c in _CHOICES), "real", "gain kept")
    whole = [folder for folder in _FOLDERS if folder in result["judged"]]
    open_ = [f"*{name}* is still to be evaluated." for name in _FOLDERS if name not in whole]
    said = [_said(folder, result) for folder in whole]
    return [table(heading, [_row(folder, result) for folder in whole]), *said, *open_]


def _default(choice: str) -> str:
    return choice if choice == "recommended" else f"{choice}, default of 0.1"


def _row(folder: str, result: dict[str, Any]) -> Sequence[object]:
    judged, runs = result["judged"][folder], result["runs"]
    judge = judged["judge"]
    chance = runs[f"{folder}-recommended"]["figures"][judge]["chance"]
    kept = f"{100 * judged['share of the gain kept']:.0f}%"
    figures = (_figure(judged[choice]) for choice in _CHOICES)
    return (_FOLDERS[folder], chance, *figures, judged["real"], kept)


def _figure(value: float | None) -> float | str:
    return "to be measured" if value is None else value


def _said(folder: str, result: dict[str, Any]) -> str:
    """What the owner is told beside the figure."""
    run = result["runs"][f"{folder}-recommended"]
    points = result["judged"][folder]["points above the better default"]
    limits = [
        f"{line.partition('. ')[0]}."
        for line in run["verdict"]
        if line.startswith("What limits it: ")
    ]
    words = " ".join(limits) or "The verdict names nothing that limits it."
    return (
        f"*{folder}*: {run['method']} by rule, {run['seconds']:.0f} s in all on two cores; "
        f"{points:+.1f} points beside the better default that was fitted. {words}"
    )


def _forecasts(result: dict[str, Any]) -> list[str]:
    rows = [
        (row["folder"], row["method"], f"{row['forecast']:.0f} s", f"{row['took']:.0f} s")
        for row in result["runs"]
    ]
    words = (
        f"How long runs take is forecast by a trial before they begin. Of {len(rows)} runs on two "
        f"cores the worst forecast was off by a factor of {result['off by at most']:.2f}:"
    )
    return [words, table(("folder", "method", "forecast", "took"), rows)]


def _tuning(result: dict[str, Any]) -> list[str]:
    """What order and rules rest on: other folders, mean of two classifiers."""
    rows = [
        (row["task"], row["method"], _turned(row), (row["mlp"] + row["cnn"]) / 2)
        for row in result["trials"]
        if "failed" not in row
    ]
    words = (
        "The order of methods, and the settings by rule, rest on other folders of such sizes (mean "
        "balanced accuracy of an MLP and a CNN, one fit each, settings for so many seconds):"
    )
    return [words, table(("folder", "method", "settings for", "accuracy"), rows)]


def _turned(row: dict[str, Any]) -> str:
    seconds, varied = f"{row['by_rule']} s", row["varied"]
    if "steps" in varied:
        return f"{seconds}, {varied['steps']} private steps"
    return ", ".join([seconds, *(f"{name}: {value}" for name, value in varied.items())])


if __name__ == "__main__":
    main()
