"""How the epoch of a classifier is chosen: the rules by name, and what each one looks at.

A rule that looks at real records besides those trained on makes a benchmark's figure and
nothing else. A protocol that uses one must say so in its stamp, and reports the held-out
figure of the same trainings beside it, so that the difference is paired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Sight = Literal["held-out", "nothing", "validation", "test"]

HELD_OUT = "held-out"
LAST_EPOCH = "last-epoch"
TEST = "test"
PRIVATE_VALIDATION = "private-validation"
NOISED_VALIDATION = "noised-validation"


@dataclass(frozen=True)
class Rule:
    """One way to choose an epoch.

    looks_at: the records whose labels decide: a share of the training set that is not
        trained on, none at all, real records of the method's own training part, or the very
        records that the figure is measured on.
    noised: whether Laplace noise is added to the number of right answers.
    suffix: what a row of this rule adds to its variant.
    stamp: what the protocol's stamp must contain, or None for a rule that is sound.
    """

    name: str
    looks_at: Sight
    words: str
    noised: bool = False
    suffix: str = ""
    stamp: str | None = None

    @property
    def benchmark_only(self) -> bool:
        """Whether a figure of this rule may serve nothing but a comparison of benchmarks."""
        return self.stamp is not None

    @property
    def has_score(self) -> bool:
        """Whether classifiers too can be chosen by it."""
        return self.looks_at != "nothing"


_RULES = (
    Rule(
        HELD_OUT,
        "held-out",
        "the epoch with the highest accuracy on a held-out share of the training set, then the "
        "lowest loss",
    ),
    Rule(LAST_EPOCH, "nothing", "the last epoch"),
    Rule(
        PRIVATE_VALIDATION,
        "validation",
        "the epoch with the highest accuracy on real training records, later ones first",
        suffix=", chosen on private validation",
        stamp="chosen on real training records without noise: a benchmark's figure, never "
        "releasable",
    ),
    Rule(
        NOISED_VALIDATION,
        "validation",
        "the epoch with the most right answers on real training records after Laplace noise",
        noised=True,
        suffix=", chosen on noised private validation",
        stamp="chosen on real training records with noise that no claim pays for: a benchmark's "
        "figure, never releasable",
    ),
    Rule(
        TEST,
        "test",
        "the epoch with the highest accuracy on the test set itself, later ones first",
        suffix=", chosen on test",
        stamp="chosen on the test set: a benchmark's figure, never releasable",
    ),
)

RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _RULES})

MEAN = "mean"
BEST = "best"
BEST_ON_TEST = "best-on-test"

SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        MEAN: "the mean over the classifiers",
        BEST: "the classifier that the rule for epochs prefers, seed by seed",
        BEST_ON_TEST: "the classifier with the highest test accuracy, seed by seed",
    }
)
"""Figures over all classifiers of a protocol."""


def required_stamps(selection: str, summaries: tuple[str, ...]) -> tuple[str, ...]:
    """What the stamp of a protocol with these choices must contain."""
    rules = [RULES[selection], *([RULES[TEST]] if BEST_ON_TEST in summaries else [])]
    return tuple(dict.fromkeys(rule.stamp for rule in rules if rule.stamp is not None))
