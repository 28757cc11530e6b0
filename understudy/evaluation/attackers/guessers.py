"""Attackers of several capacities: each learns an attribute from records and guesses it.

All are trained afresh on the records given, and on no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from understudy.data.records import Array, Records
from understudy.evaluation.attackers.search import nearest
from understudy.evaluation.case import Case
from understudy.evaluation.classifier_training import FittedClassifier, fit_classifier

LINEAR = "linear"
NEIGHBOUR = "nearest-neighbour"
_MOST_FOR_LINEAR = 10_000
_STEPS_OF_LINEAR = 200

Numbers = npt.NDArray[np.float64]


def guesses(
    name: str, learned: Records, asked: Array, case: Case, rates: Sequence[float] = ()
) -> Numbers:
    """What the named attacker gives each class of the label, `[N, classes]`.

    A network is trained once for each seed of the protocol and the mean is taken: one
    attacker who has tried several times.

    rates: learning rates to try instead of the protocol's; see `best_of_rates`.
    """
    if name == NEIGHBOUR:
        return by_neighbour(learned, asked, case.device)
    if name == LINEAR:
        return by_logistic_regression(learned, asked)
    most = case.protocol.most_training_images or len(learned)
    some = learned.select(_some(len(learned), most, case.seed))
    fitted = (best_of_rates(name, some, case, seed, rates) for seed in case.seeds)
    return np.asarray(np.mean([f.probabilities(asked) for f in fitted], axis=0))


def best_of_rates(
    name: str, learned: Records, case: Case, seed: int, rates: Sequence[float] = ()
) -> FittedClassifier:
    """The network of the learning rate that does best on the share it does not learn from.

    A rate that suits a small network can leave a large one untrained, and an untrained attacker
    makes any protection look good. What is asked about has no say.
    """
    plain = case.protocol.training
    tried = [replace(plain, learning_rate=rate) for rate in rates] or [plain]
    fitted = [
        fit_classifier(
            name, learned, training, seed=seed, device=case.device, progress=case.progress
        )
        for training in tried
    ]
    return max(fitted, key=lambda one: one.score or 0.0)


def by_neighbour(learned: Records, asked: Array, device: torch.device) -> Numbers:
    """Classes by the inverse distance to their nearest record; the nearest of all wins."""
    distances = np.full((len(asked), len(learned.schema.classes)), np.inf)
    for code in np.unique(learned.labels):
        known = learned.features[learned.labels == code]
        distances[:, code] = nearest(asked, known, device=device).distances[:, 0]
    least = distances.min(axis=1, keepdims=True)
    # Relative to the nearest: 1 for it, less for the others, also where it is at distance 0.
    weights = np.where(distances == least, 1.0, least / np.maximum(distances, 1e-300))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def by_logistic_regression(learned: Records, asked: Array) -> Numbers:
    """A linear model of the pixels."""
    from sklearn.linear_model import LogisticRegression

    some = learned.select(_some(len(learned), _MOST_FOR_LINEAR, 0))
    found = np.zeros((len(asked), len(learned.schema.classes)))
    present = np.unique(some.labels)
    if len(present) == 1:
        found[:, present[0]] = 1.0
        return found
    model = LogisticRegression(max_iter=_STEPS_OF_LINEAR)
    model.fit(_scaled(some.features), some.labels)
    found[:, model.classes_] = model.predict_proba(_scaled(asked))
    return found


def _some(count: int, most: int, seed: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(count)[:most]


def _scaled(features: Array) -> npt.NDArray[np.float32]:
    flat = np.asarray(features).reshape(len(features), -1).astype(np.float32)
    return flat / 127.5 - 1.0 if features.dtype == np.uint8 else flat
