"""How much does choosing on the test set inflate the score?

    python benchmarks/selection_inflation.py

Fits real releases (DP-MERF on `digits` and `mnist`, several budgets and seeds), trains three
classifiers on each, and keeps of every training the epoch that each rule chooses. All figures
of one release come from the same trainings, so the differences are paired. MNIST needs its raw
files under $UNDERSTUDY_DATA. One thread; writes one evidence file, the figure and the table of
docs/protocols.md. `--draw` only draws them again from the evidence.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inflation_figure import differences, write_docs
from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.data.load import load
from understudy.data.records import Records
from understudy.evaluation.classifier_training import fit_under_rules
from understudy.evaluation.protocol import ClassifierTraining, load_protocol
from understudy.evaluation.selection import HELD_OUT, PRIVATE_VALIDATION, TEST
from understudy.progress import Silent
from understudy.release.load import load_release
from understudy.run.config import RunConfig
from understudy.run.synthesize import synthesize

NAME = "selection_inflation"
RULES = (HELD_OUT, PRIVATE_VALIDATION, TEST)
EPSILONS = (1.0, 10.0)


@dataclass(frozen=True)
class Study:
    """One dataset: what is released of it, and what is trained on that."""

    dataset: str
    classifiers: tuple[str, ...]
    seeds: int
    samples: int
    epochs: int
    validation: int
    changes: tuple[str, ...] = ()


STUDIES = (
    Study("digits", ("mlp", "mlp-100", "cnn"), 5, samples=1437, epochs=50, validation=500),
    Study(
        "mnist",
        ("mlp", "mlp-100", "lenet-5"),
        3,
        samples=5000,
        epochs=20,
        validation=2000,
        changes=("steps=400",),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", action="store_true", help="draw from the evidence that exists")
    if not parser.parse_args().draw:
        measure(STUDIES)
    evidence = json.loads((EVIDENCE / f"{NAME}.json").read_text())
    write_docs(evidence["result"], REPOSITORY / "docs")


def measure(studies: tuple[Study, ...]) -> None:
    provenance = Provenance.read(REPOSITORY)
    torch.set_num_threads(1)
    start = time.perf_counter()
    found = [figure for study in studies for figure in study_figures(study)]
    seconds = time.perf_counter() - start
    write_measurement(
        EVIDENCE,
        NAME,
        provenance=provenance,
        command="python benchmarks/selection_inflation.py",
        config={
            "method": "dp-merf",
            "epsilons": list(EPSILONS),
            "rules": list(RULES),
            "training": asdict(recipe(studies[0])) | {"epochs": "see studies"},
            "studies": [asdict(study) for study in studies],
        },
        seeds=list(range(max(study.seeds for study in studies))),
        seconds={"total": seconds},
        peak_gigabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        result={"figures": found, "differences": differences(found)},
    )


def recipe(study: Study) -> ClassifierTraining:
    """DPDM's published training of its classifiers: Adam at one rate, no schedule."""
    return replace(load_protocol("dpdm").training, epochs=study.epochs)


def study_figures(study: Study) -> list[dict[str, Any]]:
    """One figure for each budget, release, classifier and rule."""
    dataset = load(study.dataset)
    outside = {
        "test": dataset.part("test"),
        "validation": drawn(dataset.part("train"), study.validation),
    }
    found = []
    for epsilon in EPSILONS:
        for seed in range(study.seeds):
            released = release(study, epsilon, seed)
            for name in study.classifiers:
                found += [
                    {"dataset": study.dataset, "epsilon": epsilon, "seed": seed, **figure}
                    for figure in trained(study, name, released, outside, seed)
                ]
    return found


def release(study: Study, epsilon: float, seed: int) -> Records:
    """The synthetic records of a release, read back from its files."""
    config = RunConfig(
        source=study.dataset,
        method="dp-merf",
        epsilon=epsilon,
        samples=study.samples,
        seed=seed,
        device="cpu",
        changes=study.changes,
        time=None,
    )
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        synthesize(config, work / "out", run_folder=work / "run", home=work / "home")
        records, _ = load_release(work / "out")
        return records


def trained(
    study: Study, name: str, released: Records, outside: dict[str, Records], seed: int
) -> list[dict[str, Any]]:
    """The test accuracy of one training under each rule, and the score that chose it."""
    fitted = fit_under_rules(
        *(name, released, recipe(study), RULES, outside),
        seed=seed,
        device=torch.device("cpu"),
        progress=Silent(),
    )
    return [
        {
            "classifier": name,
            "selection": rule,
            "epoch": classifier.epoch,
            "score": classifier.score,
            "accuracy": classifier.accuracy(outside["test"]),
        }
        for rule, classifier in fitted.items()
    ]


def drawn(records: Records, count: int) -> Records:
    return records.select(np.random.default_rng(0).permutation(len(records))[:count])


if __name__ == "__main__":
    main()
