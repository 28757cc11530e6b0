"""Accuracy against epsilon, for every run in the evidence: one picture a classifier.

    python benchmarks/budgets_figure.py

Draws into docs/images. A panel holds the runs of one dataset under one protocol; only what was
measured by the same classifier stands in the same picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from measure import EVIDENCE, REPOSITORY
from pictures import Axis, Mark, Panel, panels

from understudy.bench.evidence.store import read_store
from understudy.bench.tables.preset_differences import departures

IMAGES = REPOSITORY / "docs" / "images"
METRIC = "gen2real accuracy"
CLASSIFIERS = {"cnn": "standard", "wrn-40-4": "diffusion-quality"}
"""Whose accuracy is drawn, and under which protocol."""

DATASETS = ("digits", "mnist", "fashion-mnist")
METHODS = ("dp-merf", "dp-gan", "dpdm", "dp-feta", "pdp-diffusion")
EPSILON = Axis("epsilon, logarithmic", (0.2, 0.5, 1.0, 2.0, 5.0, 10.0))


class Point(NamedTuple):
    """One run's accuracy by one classifier, with those of real images, where its protocol trains
    on them, and of guessing."""

    dataset: str
    method: str
    classifier: str
    mark: Mark
    real: float | None
    chance: float


def main() -> None:
    runs = [f.parsed() for f in read_store(EVIDENCE).of_kind("run", trusted_only=True)]
    for name, drawn in pictures(runs).items():
        (IMAGES / name).write_text(drawn, encoding="utf-8")


def pictures(runs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """By the name of its file; a classifier that was never run has no picture."""
    points = [point for run in runs for point in points_of(run)]
    found = {}
    for classifier in CLASSIFIERS:
        own = [point for point in points if point.classifier == classifier]
        shown = [_panel(dataset, own) for dataset in DATASETS if _of(own, dataset)]
        if shown:
            words = f"gen2real accuracy of {classifier} on real test images"
            found[f"accuracy-{classifier}.svg"] = panels(shown, EPSILON, words, raw="real images")
    return found


def points_of(run: Mapping[str, Any]) -> list[Point]:
    """The accuracies of a finished run on whole data, by its preset as it is now, under the
    protocols drawn."""
    config = run["config"]
    whole = run["status"] == "ok" and config["limit"] is None
    if not whole or config["dataset"] not in DATASETS or config["method"] not in METHODS:
        return []
    if departures(config):
        return []
    protocol = run["metrics"]["protocol"]["name"]
    return [
        Point(
            config["dataset"],
            config["method"],
            row["variant"],
            Mark(config["epsilon"], row["value"], row["low"], row["high"]),
            row["reference"],
            row["chance"],
        )
        for row in run["metrics"]["rows"]
        if row["metric"] == METRIC
        and row["status"] == "ok"
        and CLASSIFIERS.get(row["variant"]) == protocol
    ]


def _of(points: Iterable[Point], dataset: str) -> list[Point]:
    return [point for point in points if point.dataset == dataset]


def _panel(dataset: str, points: Iterable[Point]) -> Panel:
    own = _of(points, dataset)
    curves = {
        method: sorted((p.mark for p in own if p.method == method), key=lambda mark: mark.x)
        for method in METHODS
    }
    present = {method: marks for method, marks in curves.items() if marks}
    return Panel(dataset, present, own[0].real, own[0].chance, (0.0, 1.0))


if __name__ == "__main__":
    main()
