"""How much what is sent tells of a label, in nats: a lower bound, and an estimate.

The bound comes from an attacker: its cross-entropy can never be below the label's conditional
entropy, so entropy minus cross-entropy is at most the mutual information. It shows leakage and
never its absence. The estimate (Ross 2014, nearest neighbours) errs on either side.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from understudy.data.records import Array
from understudy.errors import UserError
from understudy.evaluation.attackers.attributes import Answers, Codes
from understudy.evaluation.attackers.search import nearest
from understudy.evaluation.intervals import Interval, normal

NEIGHBOURS = 3
MOST_POINTS = 5_000
_LEAST_PROBABILITY = 1e-6

Numbers = npt.NDArray[np.float64]


def entropy(codes: Codes) -> float:
    """The entropy of a label as it is distributed among these records."""
    shares = np.bincount(codes) / len(codes)
    return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


def information_bound(answers: Answers) -> Interval:
    """Entropy minus the attacker's cross-entropy on records that it has not seen.

    A lower bound on the mutual information, up to the draw of the records asked about, which
    the interval covers. Probabilities are mixed with 1e-6 of the uniform, so that one confident
    mistake does not decide the figure.
    """
    scores = answers.scores / answers.scores.sum(axis=1, keepdims=True)
    scores = (1 - _LEAST_PROBABILITY) * scores + _LEAST_PROBABILITY / scores.shape[1]
    shares = np.bincount(answers.truth, minlength=scores.shape[1]) / len(answers.truth)
    rows = np.arange(len(answers.truth))
    gains = np.log(scores[rows, answers.truth]) - np.log(shares[answers.truth])
    return normal(float(gains.mean()), _standard_error(gains))


def information_estimate(points: Array, codes: Codes, seed: int = 0) -> Interval:
    """Ross's estimate of the mutual information between vectors and a label.

    At most 5,000 records, drawn at random. The interval is normal over the records' terms as if
    they were independent, and cut at 0; it does not cover the estimator's bias.
    """
    chosen = np.random.default_rng(seed).permutation(len(points))[:MOST_POINTS]
    some, labels = np.asarray(points)[chosen].reshape(len(chosen), -1), codes[chosen]
    terms = []
    for code in np.unique(labels):
        own = some[labels == code]
        if len(own) <= NEIGHBOURS:
            continue
        reach = nearest(own, own, NEIGHBOURS, within=True).distances[:, -1]
        inside = _within(own, some, reach)
        terms.append(digamma(NEIGHBOURS) - digamma(len(own)) - digamma(inside))
    if not terms:
        raise UserError(f"the estimate needs more than {NEIGHBOURS} records of some class.")
    values = np.concatenate(terms) + digamma(len(some))
    return normal(float(values.mean()), _standard_error(values)).within(0.0)


def _within(points: Array, support: Array, reach: Numbers) -> Numbers:
    """For each point, how many of the support (which holds it) lie closer than its reach."""
    counts = np.empty(len(points))
    squares = (support.astype(np.float64) ** 2).sum(axis=1)
    for start in range(0, len(points), 256):
        some = points[start : start + 256].astype(np.float64)
        distances = squares + (some**2).sum(axis=1)[:, None] - 2 * some @ support.T
        limit = reach[start : start + 256, None] ** 2 * (1 + 1e-9)
        counts[start : start + 256] = (distances <= limit).sum(axis=1) - 1  # not itself
    return np.maximum(counts, 1)


def _standard_error(values: Numbers) -> float:
    return float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else 0.0
