"""How long `bench table` and `bench sql` take over ten thousand evidence files.

    python benchmarks/evidence_store.py

Promised: each under 3 s, from a cold process, every file's trust checked. The files are made
up (ten methods, ten datasets, five budgets, twenty seeds, fourteen metric rows each) and lie in
a temporary folder; each is as large as a real one, and written as a real one is.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from measure import EVIDENCE, REPOSITORY, Measured, understudy

from understudy.bench.evidence.evidence import (
    PhaseEvidence,
    Provenance,
    RunEvidence,
    write_all_evidence,
    write_measurement,
)
from understudy.evaluation.protocol import load_protocol
from understudy.privacy.plan.mechanisms import NoisySum, Reveal
from understudy.privacy.plan.plan import Budget, Plan

METHODS, DATASETS, SEEDS = 10, 10, 20
EPSILONS = (0.2, 1.0, 4.0, 10.0, None)
UTILITY = ("gen2real accuracy", "real2gen accuracy")
CLASSIFIERS = ("mlp", "cnn", "resnet18")
FIDELITY = ("FD", "KD", "precision", "recall", "density", "coverage", "FLD", "IS")
QUERY = "SELECT method, dataset, epsilon, avg(value) FROM metrics GROUP BY ALL ORDER BY ALL"
REPEATS = 5
PROMISED = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=EVIDENCE, help="the folder of evidence")
    out = parser.parse_args().out
    provenance = Provenance.read(REPOSITORY)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "evidence"
        start = time.perf_counter()
        paths = write_all_evidence(folder, made_up_runs(provenance))
        writing = time.perf_counter() - start
        size = sum(path.stat().st_size for path in paths)
        tables = [_timed(["bench", "table", "--evidence", str(folder)]) for _ in range(REPEATS)]
        answers = [
            _timed(["bench", "sql", QUERY, "--evidence", str(folder)]) for _ in range(REPEATS)
        ]
    medians = {"table": _median(tables), "sql": _median(answers)}
    write_measurement(
        out,
        "evidence_store",
        provenance=provenance,
        command="python benchmarks/evidence_store.py",
        config={"files": len(paths), "megabytes": round(size / 1e6, 1), "query": QUERY},
        seeds=[0],
        seconds={"write": writing, **medians},
        peak_gigabytes=max(found.peak_gigabytes for found in (*tables, *answers)),
        result={
            "table": {"seconds": [t.seconds for t in tables], "lines": _lines(tables[0])},
            "sql": {"seconds": [a.seconds for a in answers], "lines": _lines(answers[0])},
            "promised": PROMISED,
            "kept": max(medians.values()) < PROMISED,
        },
    )
    print(f"table {medians['table']:.2f} s, sql {medians['sql']:.2f} s (promised {PROMISED:g} s)")


def made_up_runs(provenance: Provenance) -> list[RunEvidence]:
    protocol = load_protocol("standard").to_json()
    chance = random.Random(0)
    return [
        _run(provenance, protocol, chance, f"method-{method}", f"data-{dataset}", epsilon, seed)
        for method in range(METHODS)
        for dataset in range(DATASETS)
        for epsilon in EPSILONS
        for seed in range(SEEDS)
    ]


def _run(
    provenance: Provenance,
    protocol: dict[str, Any],
    chance: random.Random,
    method: str,
    dataset: str,
    epsilon: float | None,
    seed: int,
) -> RunEvidence:
    cell = f"{method} {dataset} {epsilon} {seed}"
    phase = PhaseEvidence(seconds=40.0, peak_gigabytes=0.6, provenance=provenance)
    return RunEvidence(
        command="understudy bench run made-up",
        provenance=provenance,
        config={
            **{"method": method, "dataset": dataset, "epsilon": epsilon, "delta": 1e-5},
            **{"seed": seed, "protocol": "standard", "samples": 60_000},
            "settings": {f"setting_{n}": n / 10 for n in range(14)},
        },
        keys={name: _digest(f"{name} {cell}") for name in ("fit", "sample", "evaluate")},
        public=True,
        data_hash=_digest(dataset),
        phases={"fit": phase, "sample": phase, "evaluate": phase},
        claim=_claim(epsilon, _digest(cell)),
        metrics={
            **{"format": "understudy-metrics/1", "protocol": protocol, "dataset": dataset},
            **{"synthetic_count": 60_000, "rows": _rows(chance)},
        },
        suite="made-up",
    )


def _claim(epsilon: float | None, head: str) -> dict[str, Any]:
    """As of a run whose whole plan is one noisy sum of this cost, or that revealed records."""
    if epsilon is None:
        plan = Budget.empirical().calibrate(lambda _: (Reveal("look", "made up"),))
    else:
        plan = _plan(epsilon)
    return {
        **{"kind": "empirical" if epsilon is None else "central", "epsilon": plan.epsilon},
        **{"delta": plan.delta, "accountant": plan.accountant, "relation": plan.relation},
        "mechanisms": plan.to_json()["mechanisms"],
        "tuning": {"covered": False, "among": [], "by": None},
        "ledger": {"head": head, "length": 4},
    }


@lru_cache
def _plan(epsilon: float) -> Plan:
    return Budget(epsilon, 1e-5).calibrate(lambda sigma: (NoisySum("sum", 1.0, sigma),))


def _rows(chance: random.Random) -> list[dict[str, Any]]:
    utility = [_row(chance, name, variant, None) for name in UTILITY for variant in CLASSIFIERS]
    fidelity = [_row(chance, f"{name}[random-conv]", "", "random-conv") for name in FIDELITY]
    return utility + fidelity


def _row(chance: random.Random, metric: str, variant: str, extractor: str | None) -> dict[str, Any]:
    value = chance.uniform(0.2, 0.9)
    return {
        **{"metric": metric, "variant": variant, "extractor": extractor},
        **{"value": value, "low": value - 0.01, "high": value + 0.01, "confidence": 0.95},
        **{"direction": "higher", "unit": "fraction", "bounds": [0.0, 1.0], "seeds": [0, 1, 2]},
        **{"reference": 0.95, "chance": 0.1, "status": "ok", "reason": None},
    }


def _digest(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()


def _timed(arguments: list[str]) -> Measured:
    with tempfile.TemporaryDirectory() as home:
        return understudy(arguments, Path(home))


def _median(found: list[Measured]) -> float:
    return statistics.median(measured.seconds for measured in found)


def _lines(found: Measured) -> int:
    return len(found.output.splitlines())


if __name__ == "__main__":
    main()
