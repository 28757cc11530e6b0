"""Membership by a likelihood ratio over shadow models, at small size.

The full attack would fit the method itself many times, with and without each record. Here
shadows take the place of *releases that repeat a record*: small classifiers trained on
held-out records together with a random half of the candidates. How sure such a classifier is
of a record's label, trained with it and without it, gives two normal laws for each record; a
classifier trained on the release is then held against both (after LiRA, Carlini et al. 2022).
It sees copying and near copying. A method that leaks in other ways may escape it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from understudy.data.records import Array, Records, concatenate
from understudy.data.schema import Schema
from understudy.evaluation.attackers.attack import Attack, halves, measured, record_halves
from understudy.evaluation.attackers.auroc import auroc
from understudy.evaluation.attackers.membership import GUESSING
from understudy.evaluation.case import Case
from understudy.evaluation.classifier_training import fit_under_rules
from understudy.evaluation.metric import Measurement, Metric, Need
from understudy.evaluation.protocol import Protocol
from understudy.evaluation.selection import LAST_EPOCH

_MOST_CANDIDATES = 1000
_LEAST_VARIANCE = 1e-6
_CERTAIN = 1e-9

Numbers = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class ShadowMembership(Attack):
    """The AUROC, members against strangers, of the log likelihood ratio over shadow models."""

    name = "membership by shadow models, AUROC"
    needs = frozenset({Need.TRAIN, Need.LABEL})
    classifier = "mlp"
    shadows = 16

    @classmethod
    def instances(cls, protocol: Protocol) -> tuple[Metric, ...]:
        del protocol
        return (cls(),)

    @property
    def variant(self) -> str:
        return f"{self.classifier}, {self.shadows} shadows"

    @property
    def selection(self) -> str:
        return LAST_EPOCH

    def measure(self, case: Case) -> Measurement:
        pool, strangers = record_halves(_labelled_only(case.drawn("test", len(case.test))))
        members = _labelled_only(case.drawn("train", _MOST_CANDIDATES))
        strangers = strangers.select(np.arange(min(len(strangers), _MOST_CANDIDATES)))
        candidates = concatenate([members, strangers])
        inside = balanced_masks(self.shadows, len(candidates), case.seed)
        sureness = np.array(
            [
                self._sureness(case, concatenate([pool, candidates.select(mask)]), seed, candidates)
                for seed, mask in enumerate(inside)
            ]
        )
        target = self._target(case, candidates)
        scores = log_likelihood_ratio(target, sureness, inside)
        of_strangers = scores[len(members) :]
        return measured(
            auroc(scores[: len(members)], of_strangers).interval,
            reference=auroc(*halves(of_strangers)).value,
            chance=GUESSING,
            seeds=case.seeds,
        )

    def _target(self, case: Case, candidates: Records) -> Numbers:
        """What classifiers of the release say of the candidates; the mean over the seeds."""
        most = case.protocol.most_training_images or len(case.synthetic)
        release = case.drawn("synthetic", most)
        said = [self._sureness(case, release, seed, candidates) for seed in case.seeds]
        return np.asarray(np.mean(said, axis=0))

    def _sureness(self, case: Case, learned: Records, seed: int, asked: Records) -> Numbers:
        """How sure a classifier of these records, all of them, is of each candidate's label."""
        fitted = fit_under_rules(
            self.classifier,
            learned,
            replace(case.protocol.training, holdout=0.0, patience=None),
            (LAST_EPOCH,),
            {},
            seed=seed,
            device=case.device,
            progress=case.progress,
        )[LAST_EPOCH]
        probabilities = fitted.probabilities(asked.features)
        return log_odds(probabilities, asked.labels)


def _labelled_only(records: Records) -> Records:
    """Without the columns and roles that training and held-out records need not share."""
    label = records.schema.label_attribute
    schema = Schema((label,), label=label.name)
    return Records(records.features, {label.name: records.attributes[label.name]}, schema)


def log_odds(probabilities: Numbers, labels: Array) -> Numbers:
    """The log odds of each record's own label, which are closer to normal than probabilities."""
    right = probabilities[np.arange(len(labels)), labels]
    wrong = np.maximum(1 - right, _CERTAIN)
    return np.asarray(np.log(np.maximum(right, _CERTAIN)) - np.log(wrong))


def balanced_masks(shadows: int, candidates: int, seed: int) -> list[Mask]:
    """Which candidates each shadow learns; each is in exactly half of the shadows."""
    random = np.random.default_rng(seed)
    masks: list[Mask] = []
    while len(masks) < shadows:
        chosen = random.permutation(candidates) < candidates // 2
        masks += [chosen, ~chosen]
    return masks[:shadows]


def log_likelihood_ratio(target: Numbers, shadows: Numbers, inside: Sequence[Mask]) -> Numbers:
    """Log ratio of two normal laws of each candidate at the target's value.

    shadows: `[shadow, candidate]`, and `inside` says which learned which. Means are each
    candidate's own; one variance is pooled over all, because a handful of shadows does not
    tell a candidate's own.
    """
    learned = np.asarray(inside)
    means, squares = [], 0.0
    for chosen in (learned, ~learned):
        mean = np.where(chosen, shadows, 0.0).sum(axis=0) / chosen.sum(axis=0)
        squares += float(np.where(chosen, (shadows - mean) ** 2, 0.0).sum())
        means.append(mean)
    freedom = max(learned.size - 2 * learned.shape[1], 1)
    variance = max(squares / freedom, _LEAST_VARIANCE)
    return np.asarray(((target - means[1]) ** 2 - (target - means[0]) ** 2) / (2 * variance))
