"""Random budgets and spends, as wide as the methods of the house will be."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EnsembleGradients,
    EnsembleVotes,
    Mechanism,
    NoisyHistogram,
    NoisySum,
)
from understudy.privacy.plan.plan import Budget, Spend

Make = Callable[[float], Mechanism]


@dataclass(frozen=True)
class RandomPlan:
    """A budget and what a method would do with it; `fixed` parts do not follow sigma."""

    budget: Budget
    spend: Spend
    words: str


def random_plan(rng: random.Random) -> RandomPlan:
    """One to three mechanisms that follow sigma, and sometimes a cheap one that does not.

    Epsilon from 0.1 to 20, delta from 1e-7 to 1e-4, 1 to 20,000 steps, rates 3e-4 to 0.3.
    """
    budget = Budget(epsilon=10 ** rng.uniform(-1, 1.3), delta=10 ** rng.uniform(-7, -4))
    makes = [_mechanism(rng, f"use {i}") for i in range(rng.choice([1, 1, 2, 3]))]
    if rng.random() < 0.3:
        cheap = NoisyHistogram("fixed", bins=10, sigma=30 / min(budget.epsilon, 1.0))
        makes.append(lambda _sigma: cheap)

    def spend(sigma: float) -> tuple[Mechanism, ...]:
        return tuple(make(sigma) for make in makes)

    return RandomPlan(budget, spend, f"{budget}: {spend(1.0)}")


def _mechanism(rng: random.Random, name: str) -> Make:
    kind = rng.choice(["sum", "histogram", "sgd", "sgd", "sgd", "votes", "gradients"])
    steps, rate = int(10 ** rng.uniform(0, 4.3)), 10 ** rng.uniform(-3.5, -0.5)
    scale = rng.uniform(0.5, 8.0)
    makes: dict[str, Make] = {
        "sum": lambda sigma: NoisySum(name, clip=1.0, sigma=scale * sigma),
        "histogram": lambda sigma: NoisyHistogram(name, bins=10, sigma=scale * sigma),
        "sgd": lambda sigma: DPSGD(name, steps=steps, rate=rate, clip=1.0, sigma=sigma),
        "votes": lambda sigma: EnsembleVotes(
            name, shards=50, queries=200, sigma=10 * scale * sigma
        ),
        "gradients": lambda sigma: EnsembleGradients(
            name, shards=50, queries=100, clip=1.0, sigma=10 * scale * sigma
        ),
    }
    return makes[kind]
