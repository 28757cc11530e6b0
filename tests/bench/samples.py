"""Evidence made up for tests: realistic in form, no result of anything."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from dp_accounting import get_sigma_gaussian

from understudy.bench.evidence.evidence import PhaseEvidence, Provenance, RunEvidence
from understudy.privacy.plan.mechanisms import Mechanism, NoisySum, Reveal, mechanism_to_json
from understudy.privacy.plan.plan import LOCAL_RELATION, RELATION
from understudy.release.build import price_events

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
        "claim": claim(one_sum(epsilon)),
        "metrics": metrics(shown, protocol, stamp),
        "suite": "smoke",
    }
    return RunEvidence(**{**values, **changes})


def one_sum(epsilon: float | None) -> Mechanism:
    """One noisy sum that costs just so much at delta 1e-5; without a bound, a reveal."""
    if epsilon is None:
        return Reveal("look", "to see")
    return NoisySum("sum", clip=1.0, sigma=_sigma(epsilon))


@lru_cache
def _sigma(epsilon: float) -> float:
    return float(get_sigma_gaussian(epsilon, 1e-5))


def claim(*mechanisms: Mechanism, **changes: Any) -> dict[str, Any]:
    """What evidence says of a run that did just this, priced by the house's accountants."""
    found = price_events([e for m in mechanisms for e in m.events(m.uses)], 1e-5)
    values = {
        "kind": found.kind,
        "epsilon": found.epsilon,
        "delta": 1e-5,
        "accountant": found.accountant,
        "relation": LOCAL_RELATION if found.kind == "local" else RELATION,
        "mechanisms": [mechanism_to_json(mechanism) for mechanism in mechanisms],
        "tuning": {"covered": False},
        "ledger": {"head": "c" * 64, "length": 4},
    }
    return {**values, **changes}


def failed_run(reason: str = "out of memory", **changes: Any) -> RunEvidence:
    nothing: dict[str, Any] = {"claim": None, "metrics": None, "phases": {}}
    return run_evidence(status="failed", reason=reason, **nothing, **changes)


def key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
