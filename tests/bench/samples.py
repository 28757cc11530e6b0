"""Evidence made up for tests: realistic in form, no result of anything."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from understudy.bench.evidence.evidence import PhaseEvidence, Provenance, RunEvidence

MACHINE = Provenance(
    commit="a" * 40,
    dirty=False,
    versions={"python": "3.11.7", "torch": "2.13.0"},
    hardware={"processor": "test", "cores": 2, "memory_gigabytes": 8.0},
)


def metric_row(
    metric: str, value: float | None, variant: str = "", **changes: Any
) -> dict[str, Any]:
    """One line of `metrics.json`; without a value, a failed one."""
    fraction = metric.endswith(("accuracy", "precision[random-conv]"))
    row: dict[str, Any] = {
        "metric": metric,
        "variant": variant,
        "value": value,
        "low": None if value is None else value - 0.01,
        "high": None if value is None else value + 0.01,
        "confidence": 0.95,
        "direction": "higher" if fraction else "lower",
        "unit": "fraction" if fraction else "squared feature distance",
        "bounds": [0.0, 1.0] if fraction else [0.0, None],
        "seeds": [0, 1, 2],
        "reference": 0.97 if fraction else 0.5,
        "chance": 0.1 if fraction else None,
        "extractor": None if fraction else "random-conv",
        "status": "ok" if value is not None else "failed",
        "reason": None if value is not None else "no weights",
    }
    return {**row, **changes}


def metrics(
    rows: Sequence[Mapping[str, Any]], protocol: str = "standard", stamp: str | None = None
) -> dict[str, Any]:
    return {
        "format": "understudy-metrics/1",
        "protocol": {"name": protocol, "stamp": stamp, "seeds": 3},
        "dataset": "mnist",
        "synthetic_count": 1000,
        "rows": [dict(row) for row in rows],
    }


def run_evidence(
    method: str = "dp-merf",
    dataset: str = "mnist",
    epsilon: float | None = 1.0,
    seed: int = 0,
    *,
    rows: Sequence[Mapping[str, Any]] | None = None,
    protocol: str = "standard",
    stamp: str | None = None,
    settings: Mapping[str, Any] | None = None,
    public: bool = True,
    **changes: Any,
) -> RunEvidence:
    """A finished run, unless `changes` says otherwise."""
    shown = rows if rows is not None else [metric_row("gen2real accuracy", 0.8 + seed / 100, "cnn")]
    config = {
        "method": method,
        "dataset": dataset,
        "epsilon": epsilon,
        "delta": 1e-5,
        "seed": seed,
        "protocol": protocol,
        "settings": dict(settings or {"steps": 10}),
        "changes": [],
    }
    phase = PhaseEvidence(seconds=2.0, peak_gigabytes=0.5, provenance=MACHINE)
    values: dict[str, Any] = {
        "command": f"understudy bench run {dataset}",
        "provenance": MACHINE,
        "config": config,
        "keys": {phase: key(phase, config, changes) for phase in ("fit", "sample", "evaluate")},
        "public": public,
        "data_hash": "d" * 64 if public else None,
        "phases": {"fit": phase, "sample": phase, "evaluate": phase},
        "claim": {
            "kind": "central",
            "epsilon": epsilon if epsilon is not None else float("inf"),
            "delta": 1e-5,
            "accountant": "PLD",
            "tuning": {"covered": False},
            "ledger": {"head": "c" * 64, "length": 4},
        },
        "metrics": metrics(shown, protocol, stamp),
        "suite": "smoke",
    }
    return RunEvidence(**{**values, **changes})


def failed_run(reason: str = "out of memory", **changes: Any) -> RunEvidence:
    nothing: dict[str, Any] = {"claim": None, "metrics": None, "phases": {}}
    return run_evidence(status="failed", reason=reason, **nothing, **changes)


def key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
