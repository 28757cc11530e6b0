"""A mixture of normal laws around given points, each with a width of its own.

This is the density model of the Feature Likelihood Divergence (Jiralerspong et al. 2023,
arXiv:2302.04440). Its widths are fitted so that given points become likely; a centre that
repeats one of those points is drawn onto it and explains nothing else, which is how the
divergence sees copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, pi

import torch

_CHUNK = 128
_ROUNDING = 1e-12
_MOST_ROUNDS = 50
_TOLERANCE = 1e-5
_NO_WEIGHT = 1e-100

# As published: the start is the best width for the nearest point, this added to its squared
# distance; widths stay finite where a centre equals a point; the base law, which bears the
# points that no centre explains, sees them a tenth nearer to their mean than they are.
_START_MARGIN = 1e-3
_LOG_VARIANCES = (-40.0, 20.0)
_BASE_SCALE = (1 - 0.1) ** 2


@dataclass(frozen=True)
class Mixture:
    """Normal laws of equal weight with these centres `[n, d]` and variances `exp(.) I`."""

    centres: torch.Tensor
    log_variances: torch.Tensor

    def losses(self, points: torch.Tensor) -> torch.Tensor:
        """For each point the negative log-likelihood, in nats for each dimension."""
        found = [
            torch.logsumexp(_log_densities(squared, self.log_variances, points.shape[1]), dim=1)
            for squared in _squared_distances(points, self.centres)
        ]
        return (log(len(self.centres)) - torch.cat(found)) / points.shape[1]


@dataclass(frozen=True)
class _Widths:
    """Logarithms of the variances: one for each centre, and that of the base law."""

    centres: torch.Tensor
    base: torch.Tensor


@dataclass(frozen=True)
class _Fit:
    """What one look at all points gives: the objective, and the next widths."""

    objective: float
    widths: _Widths


def fit_mixture(centres: torch.Tensor, points: torch.Tensor) -> Mixture:
    """The mixture around `centres` under which `points` are most likely.

    The objective is the mean of `log(mixture(x) + base(x))`, the base law being normal around
    the mean of the points. It is climbed by expectation-maximisation, which rises at every
    round and needs no rate, until a round gains less than 1e-5 nats for each dimension. Being
    one of several maxima, the result depends on the start, which is the published one; the
    published code then takes 50 epochs of Adam. Distances are computed anew each round, so
    memory stays linear.
    """
    widths = _Widths(_first_widths(centres, points), points.new_zeros(()))
    before = float("-inf")
    for _ in range(_MOST_ROUNDS):
        fit = _round(centres, points, widths)
        widths = fit.widths
        if fit.objective - before < _TOLERANCE:
            break
        before = fit.objective
    return Mixture(centres, widths.centres)


def _first_widths(centres: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    nearest = torch.cat([s.amin(dim=1) for s in _squared_distances(centres, points)])
    return torch.log((nearest + _START_MARGIN) / points.shape[1])


def _round(centres: torch.Tensor, points: torch.Tensor, widths: _Widths) -> _Fit:
    """One round: how much each law has to do with each point, then the best widths for that.

    Densities are kept relative to the largest at each point, and their exponentials are taken
    once: on a CPU they are what a round costs.
    """
    count, dimension = points.shape
    from_mean = _BASE_SCALE * ((points - points.mean(dim=0)) ** 2).sum(dim=1)
    base_laws = _log_densities(from_mean, widths.base, dimension)
    weight, spread = torch.zeros_like(widths.centres), torch.zeros_like(widths.centres)
    base_weight, base_spread = points.new_zeros(()), points.new_zeros(())
    objective = 0.0
    start = 0
    for squared in _squared_distances(points, centres):
        rows = slice(start, start + len(squared))
        start += len(squared)
        laws = _log_densities(squared, widths.centres, dimension).sub_(log(len(centres)))
        largest = torch.maximum(laws.amax(dim=1), base_laws[rows])
        laws.sub_(largest[:, None]).exp_()
        base = torch.exp(base_laws[rows] - largest)
        total = laws.sum(dim=1) + base
        weight += total.reciprocal() @ laws
        spread += total.reciprocal() @ laws.mul_(squared)
        base_weight += (base / total).sum()
        base_spread += (base / total) @ from_mean[rows]
        objective += float((largest + total.log()).sum())
    best = _Widths(
        _best_width(weight, spread, dimension, widths.centres),
        _best_width(base_weight, base_spread, dimension, widths.base),
    )
    return _Fit(objective / (count * dimension), best)


def _best_width(
    weight: torch.Tensor, spread: torch.Tensor, dimension: int, before: torch.Tensor
) -> torch.Tensor:
    """The most likely log-variance; a law that bears no point keeps what it had."""
    found = torch.log(spread / (dimension * weight)).clamp(*_LOG_VARIANCES)
    return torch.where(weight > _NO_WEIGHT, found, before)


def _log_densities(
    squared: torch.Tensor, log_variances: torch.Tensor, dimension: int
) -> torch.Tensor:
    """Logarithms of normal densities, from squared distances to their centres."""
    constant = -0.5 * dimension * (log_variances + log(2 * pi))
    return (squared * (-0.5 * torch.exp(-log_variances))).add_(constant)


def _squared_distances(x: torch.Tensor, y: torch.Tensor) -> Iterator[torch.Tensor]:
    """For some rows of x at a time, `[rows, y]`; equal rows are exactly zero apart."""
    y_squares = (y**2).sum(dim=1)
    for start in range(0, len(x), _CHUNK):
        rows = x[start : start + _CHUNK]
        squares = (rows**2).sum(dim=1, keepdim=True) + y_squares
        distances = torch.addmm(squares, rows, y.T, alpha=-2)
        yield distances.masked_fill_(distances < squares.mul_(_ROUNDING), 0.0)
