"""The generative filter's figures on MNIST.

    python benchmarks/filters_figures.py
    python benchmarks/filters_figures.py --geometry ENCODER FOLDER

The first form draws what `filters_mnist.py` measured into docs/images: accuracy against the budget
(the paper's 3c, 7b and 7c), information against it (9) and confusion matrices (3a, 3b, 7a). The
second draws test latents before and after filtering (4 and 8). Those points are derived from
MNIST, so they go to a folder of yours and never into the repository; a few minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filters_page import mnist_result
from pictures import Axis, Mark, Panel, matrices, panels, scatter

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE, IMAGES = ROOT / "benchmarks" / "evidence", ROOT / "docs" / "images"
METHODS = {"network": "network filter", "linear": "linear filter", "gaussian": "Gaussian noise"}
WARY = "wary network"
HIDDEN = {"sweep-1": "digit", "sweep-2": "at-least-5"}
SHOWN = 4000
"""Latents in a picture of their geometry."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--geometry", nargs=2, type=Path, metavar=("ENCODER", "FOLDER"))
    asked = parser.parse_args()
    if asked.geometry:
        geometry(*asked.geometry)
        return
    for name, drawn in pictures(mnist_result(EVIDENCE)).items():
        (IMAGES / name).write_text(drawn, encoding="utf-8")


def pictures(result: Mapping[str, Any]) -> dict[str, str]:
    """Every picture that this evidence gives, by the name of its file."""
    found = {}
    for number in ("1", "2"):
        case, sweep = result.get(f"case-{number}"), result.get(f"sweep-{number}")
        if sweep:
            found[f"filters-accuracy-case-{number}.svg"] = accuracy(sweep)
        if case:
            found[f"filters-confusion-case-{number}.svg"] = confusions(case)
    if all(name in result for name in HIDDEN):
        found["filters-information.svg"] = information(result)
    return found


def accuracy(part: Mapping[str, Any]) -> str:
    """Of the paper's reader against the budget: a panel for each label."""
    points = part["curves"]
    shown = []
    for name, first in points[0]["accuracy"].items():
        low = np.floor(10 * (first["chance"] - 0.05)) / 10
        title = f"{part['roles'][name]}: {name}"
        shown.append(panel(title, points, lambda p, n=name: p["accuracy"][n], (low, 1.0)))
    return panels(shown, Axis("budget b"), "accuracy of the reader of 15 units")


def information(result: Mapping[str, Any]) -> str:
    """What is told of the hidden label against the budget, estimated by nearest neighbours."""
    shown = []
    for name, label in HIDDEN.items():
        points = result[name]["curves"]
        most = 1.1 * max(p["information"]["reference"] for p in points)
        shown.append(panel(f"hidden: {label}", points, lambda p: p["information"], (0.0, most)))
    return panels(shown, Axis("budget b"), "information on the hidden label, nats")


def panel(title: str, points: Sequence[Mapping[str, Any]], find: Any, bounds: Any) -> Panel:
    """One quantity of a sweep's points, a curve for each method."""
    curves: dict[str, list[Mark]] = {words: [] for words in METHODS.values()}
    for point in points:
        row = find(point)
        mark = Mark(point["budget"], row["value"], row["low"], row["high"])
        curves[METHODS[point["method"]]].append(mark)
    row = find(points[0])
    present = {words: marks for words, marks in curves.items() if marks}
    return Panel(title, present, row["reference"], row["chance"], bounds)


def confusions(part: Mapping[str, Any]) -> str:
    """Of the paper's reader, raw and after each form of filter; means over seeds."""
    runs = list(part["seeds"].values())
    tables = {}
    for name, words in {"raw": "raw latents", **METHODS, WARY: WARY}.items():
        if name in runs[0]:
            tables[words] = np.mean([run[name]["confusion"] for run in runs], axis=0).tolist()
    size = len(tables["raw latents"])
    return matrices(tables, ["no", "yes"] if size == 2 else [str(code) for code in range(size)])


def geometry(encoder_file: Path, folder: Path) -> None:
    """Test latents as points: raw, and as the network filters of seed 0 send them."""
    from filters_mnist import CASES
    from latent_readings import TRAINED_ON, encoded_mnist, some

    from understudy.encoders.file import read_encoder
    from understudy.evaluation.embedding import project
    from understudy.filters.distortion import Distortion
    from understudy.filters.filter import fit_filter
    from understudy.privacy.noise.source import NoiseSource

    encoder = read_encoder(encoder_file)
    raw = encoded_mnist(encoder)
    own, shown = some(raw.learned, TRAINED_ON, 0), some(raw.asked, SHOWN, 0)
    sent = {"raw": shown.features}
    for case, task in CASES.items():
        for budget in (1.5, 5.0):
            limit, config = Distortion("kl", budget), task.forms["network"][0]
            fitted = fit_filter(own, task.choice, limit, encoder, config, seed=0)
            sent[f"{case}, b = {budget:g}"] = fitted.filtered(shown, NoiseSource())
    folder.mkdir(parents=True, exist_ok=True)
    for name, latents in sent.items():
        found = project(latents)
        title = f"{found.name} of MNIST test latents, {name}; numbers are digits"
        points = [(float(x), float(y)) for x, y in found.points]
        drawn = scatter(points, shown.attributes["digit"].tolist(), title)
        path = folder / f"geometry-{name.replace(', b = ', '-b')}.svg"
        path.write_text(drawn, encoding="utf-8")
        print(path, flush=True)


if __name__ == "__main__":
    main()
