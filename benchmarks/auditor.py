"""Whether the auditor can be believed: audits of mechanisms whose epsilon is known exactly.

    python benchmarks/auditor.py

Gaussian releases with a coordinate for each canary, at delta 1e-5 and 95% confidence; and
randomised response, where the one-run bound is tight, so that too many and too few bounds
above the truth both show. Settings are fixed here, before anything is drawn. Promised: at
most 27 bounds of 200 above the truth; with 100,000 canaries, at epsilon 4 and 8, at least
65% of the truth by f-DP with 2% guesses and 40% by one-run; half the noise is noticed.
A few minutes on one core.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import EVIDENCE, REPOSITORY

from understudy.audit import f_dp, one_run
from understudy.audit.canaries import Coins, Scores, extremes
from understudy.audit.trade_off import GaussianCurves, gaussian_mu
from understudy.bench.evidence.evidence import Provenance, write_measurement

DELTA, CONFIDENCE, REPEATS, SEED = 1e-5, 0.95, 200, 0
MANY, SHARE = 100_000, 0.02
SMALL, SMALL_SHARE = 2_000, 0.2
EPSILONS = (4.0, 8.0)
MOST_EXCEEDANCES = 27

Bound = Callable[[int], float]


def main() -> None:
    provenance, rng, start = Provenance.read(REPOSITORY), np.random.default_rng(SEED), time.time()
    result = {
        "gaussian": [
            gaussian(rng, epsilon, canaries, share)
            for canaries, share in ((MANY, SHARE), (SMALL, SMALL_SHARE))
            for epsilon in EPSILONS
        ],
        "half the noise": [half_the_noise(rng, epsilon) for epsilon in EPSILONS],
        "randomised response": [randomised_response(rng, epsilon) for epsilon in (1.0, 3.0)],
    }
    write_measurement(
        EVIDENCE,
        "auditor",
        provenance=provenance,
        command="python benchmarks/auditor.py",
        config={
            "delta": DELTA,
            "confidence": CONFIDENCE,
            "repeats": REPEATS,
            "most exceedances promised": MOST_EXCEEDANCES,
        },
        seeds=[SEED],
        seconds={"total": time.time() - start},
        peak_gigabytes=None,
        result=result,
    )


def gaussian(
    rng: np.random.Generator, epsilon: float, canaries: int, share: float
) -> dict[str, Any]:
    """Bounds by both estimators over repeated audits of one Gaussian release."""
    guesses = int(canaries * share)
    bounds = estimators(canaries, guesses)
    mu = gaussian_mu(epsilon, DELTA)
    found: dict[str, list[float]] = {name: [] for name in bounds}
    for _ in range(REPEATS):
        coins, ratios = audit_of_gaussian(rng, canaries, mu)
        correct = extremes(ratios, guesses).correct(coins)
        for name, bound in bounds.items():
            found[name].append(bound(correct))
    return {
        "epsilon": epsilon,
        "canaries": canaries,
        "guesses": guesses,
        **{name: summary(values, epsilon) for name, values in found.items()},
    }


def half_the_noise(rng: np.random.Generator, epsilon: float) -> dict[str, Any]:
    """How often a release with half the noise that its claim needs is found out."""
    guesses, mu = int(MANY * SHARE), gaussian_mu(epsilon, DELTA)
    bound = estimators(MANY, guesses)["f-dp"]
    repeats = 20
    found = 0
    for _ in range(repeats):
        coins, ratios = audit_of_gaussian(rng, MANY, 2 * mu)
        found += bound(extremes(ratios, guesses).correct(coins)) > epsilon
    return {"claimed": epsilon, "repeats": repeats, "found out": found}


def randomised_response(rng: np.random.Generator, epsilon: float) -> dict[str, Any]:
    """Every coin is published, flipped with probability 1 / (1 + e^epsilon): pure privacy."""
    canaries, right = 1_000, 1 / (1 + np.exp(-epsilon))

    @functools.cache
    def bound(correct: int) -> float:
        return one_run.lower_bound(
            canaries=canaries, guesses=canaries, correct=correct, delta=0.0, confidence=CONFIDENCE
        )

    values = [bound(int(v)) for v in rng.binomial(canaries, right, REPEATS)]
    return {"epsilon": epsilon, "canaries": canaries, "one-run": summary(values, epsilon)}


def audit_of_gaussian(rng: np.random.Generator, canaries: int, mu: float) -> tuple[Coins, Scores]:
    """Fair coins, and what a release with noise 1 / mu says of each, as log ratios."""
    coins = rng.random(canaries) < 0.5
    return coins, mu * (coins * mu + rng.standard_normal(canaries) - mu / 2)


def estimators(canaries: int, guesses: int) -> dict[str, Bound]:
    """Both bounds as functions of the number of right guesses, remembered."""

    @functools.cache
    def by_f_dp(correct: int) -> float:
        return f_dp.lower_bound(
            GaussianCurves(claimed=0.0),
            canaries=canaries,
            guesses=guesses,
            correct=correct,
            delta=DELTA,
            confidence=CONFIDENCE,
        )

    @functools.cache
    def by_one_run(correct: int) -> float:
        return one_run.lower_bound(
            canaries=canaries,
            guesses=guesses,
            correct=correct,
            delta=DELTA,
            confidence=CONFIDENCE,
        )

    return {"f-dp": by_f_dp, "one-run": by_one_run}


def summary(values: list[float], truth: float) -> dict[str, Any]:
    shares = np.array(values) / truth
    return {
        "above the truth": int((shares > 1).sum()),
        "mean share of the truth": float(shares.mean()),
        "least share of the truth": float(shares.min()),
    }


if __name__ == "__main__":
    main()
