"""A choice over several budgets: the filters, and the Gaussian mechanism at equal distortion.

The paper's claim is a comparison: at the same budget a filter keeps more and hides more than
noise does. `verdicts` says where that holds, by a rule that was fixed before measuring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from latent_readings import TRAINED_ON, figures, filtered, some, with_noise

from understudy.encoders.encoder import Encoder
from understudy.evaluation.filtering import Readers, View, information_row
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion, noise_within
from understudy.filters.filter import fit_filter
from understudy.filters.game import GameConfig
from understudy.privacy.accounting.accountants import local_price
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import LocalGaussian

BUDGETS = (0.5, 1.0, 1.5, 3.0, 5.0)
READER, GAUSSIAN = "mlp-15", "gaussian"
LEARNED = 20_000
"""Records that the sweep's readers learn from."""

DELTA = 1e-5
NEAR = 0.02
"""Within this of raw latents nothing was hidden; within this of chance nothing is left."""

Point = dict[str, Any]


def swept(
    encoder: Encoder,
    raw: View,
    choice: Choice,
    forms: Mapping[str, GameConfig],
    roles: Mapping[str, str],
    readers: Readers,
) -> list[Point]:
    """One seed: for every budget and method, what is read and how much is told.

    The mechanism's noise is fixed by the budget and the reference variances; its epsilon is
    local, per record, for latents clipped to the encoder's radius.
    """
    noise, seed = NoiseSource(), readers.seed
    own = some(raw.learned, TRAINED_ON, seed)
    view = View(some(raw.learned, LEARNED, seed), raw.asked)
    variances = np.asarray(own.features, np.float64).var(axis=0)
    points = []
    for budget in BUDGETS:
        limit = Distortion("kl", budget)
        for form, config in forms.items():
            fitted = fit_filter(own, choice, limit, encoder, config, seed=seed)
            sent = filtered(fitted, view, noise)
            points.append({"method": form, "budget": budget, **told(readers, sent, view, roles)})
        deviation = noise_within(limit, variances)
        parts = [with_noise(r.features, deviation, noise) for r in (view.learned, view.asked)]
        price = local_price([LocalGaussian(deviation / (2 * encoder.radius))], DELTA)
        found = told(readers, view.with_features(*parts), view, roles)
        points.append(
            {"method": GAUSSIAN, "budget": budget, **found, "local epsilon": price.epsilon}
        )
    return points


def told(readers: Readers, sent: View, raw: View, roles: Mapping[str, str]) -> Point:
    """Accuracy of the paper's reader for every label, and information on the hidden one."""
    rows = figures(readers, sent, raw, roles, (READER,))
    accuracy = {
        name: next(row for row in rows[name] if row["metric"] == f"{role} {name} accuracy")
        for name, role in roles.items()
    }
    hidden = next(name for name, role in roles.items() if role == "hidden")
    information = information_row(sent, raw, hidden, "hidden", readers.seed).to_json()
    return {
        "accuracy": {name: _short(row) for name, row in accuracy.items()},
        "information": _short(information),
    }


def _short(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: row[name] for name in ("value", "low", "high", "reference", "chance")}


def curves(runs: Sequence[Sequence[Point]]) -> list[Point]:
    """Means over seeds of every number; an interval's ends too, for all seeds ask one test set."""
    return [
        {
            "method": same[0]["method"],
            "budget": same[0]["budget"],
            "accuracy": {
                name: _mean([point["accuracy"][name] for point in same])
                for name in same[0]["accuracy"]
            },
            "information": _mean([point["information"] for point in same]),
        }
        for same in zip(*runs, strict=True)
    ]


def _mean(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(fmean(one[name] for one in found), 4) for name in found[0]}


def verdicts(points: Sequence[Point], choice: Choice) -> list[dict[str, Any]]:
    """For every budget and form: is what is kept less what is read higher than with noise?

    compared: there is something to compare, because with either method the hidden or the kept
        label is read over 2 points away both from raw latents and from guessing.
    """
    hidden, kept = choice.private[0], choice.useful[0]
    by_place = {(point["method"], point["budget"]): point["accuracy"] for point in points}
    found = []
    for (method, budget), own in by_place.items():
        if method == GAUSSIAN:
            continue
        other = by_place[GAUSSIAN, budget]
        both = [one[name] for one in (own, other) for name in choice.names]
        ours, theirs = (one[kept]["value"] - one[hidden]["value"] for one in (own, other))
        found.append(
            {
                "method": method,
                "budget": budget,
                "compared": any(_between(row) for row in both),
                "filter margin": round(ours, 4),
                "gaussian margin": round(theirs, 4),
                "filter is ahead": ours > theirs,
            }
        )
    return found


def _between(row: Mapping[str, float]) -> bool:
    return all(abs(row["value"] - row[end]) > NEAR for end in ("reference", "chance"))
