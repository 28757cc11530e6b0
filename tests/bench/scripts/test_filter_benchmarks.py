"""What the filter benchmarks measure with: readers that have learnt, and the rule of the sweep."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.scripts import accuracy_row as row
from tests.scripts import load_script
from understudy.filters.choice import Choice

CHOICE = Choice(("hide",), ("keep",))


@pytest.fixture(scope="module")
def sweep() -> ModuleType:
    return load_script("budget_sweep")


def point(method: str, hide: float, keep: float) -> dict[str, Any]:
    labels = {"hide": row(hide), "keep": row(keep)}
    return {"method": method, "budget": 1.0, "accuracy": labels, "information": row(0.2, 0.5, 0)}


@pytest.mark.parametrize(
    ("ours", "noise", "compared", "ahead"),
    [
        ((0.6, 0.9), (0.7, 0.9), True, True),
        ((0.8, 0.9), (0.7, 0.9), True, False),
        ((0.94, 0.95), (0.945, 0.95), False, True),  # nothing was hidden yet
        ((0.51, 0.5), (0.5, 0.5), False, False),  # nothing is left
        ((0.94, 0.95), (0.94, 0.9), True, True),  # one figure of one method is enough
        ((0.7, 0.9), (0.7, 0.9), True, False),  # no better is not ahead
    ],
)
def test_the_verdict_is_the_rule(
    sweep: ModuleType,
    ours: tuple[float, float],
    noise: tuple[float, float],
    compared: bool,
    ahead: bool,
) -> None:
    (found,) = sweep.verdicts([point("network", *ours), point("gaussian", *noise)], CHOICE)
    assert (found["compared"], found["filter is ahead"]) == (compared, ahead)
    assert found["filter margin"] == pytest.approx(ours[1] - ours[0])
    assert found["gaussian margin"] == pytest.approx(noise[1] - noise[0])


def test_curves_are_means_over_seeds(sweep: ModuleType) -> None:
    runs = [[point("network", hide, 0.9)] for hide in (0.6, 0.7)]
    (found,) = sweep.curves(runs)
    assert found["accuracy"]["hide"]["value"] == pytest.approx(0.65)
    assert found["accuracy"]["hide"]["low"] == pytest.approx(0.64)
    assert (found["method"], found["budget"]) == ("network", 1.0)


def test_the_readers_of_the_benchmarks_try_more_than_one_rate() -> None:
    """The rate of the paper's small reader left the wide one untrained in one run of several."""
    readers = load_script("latent_readings").readers_of(0)
    assert len(readers.rates) > 1
    assert min(readers.rates) <= 0.005 < 0.01 <= max(readers.rates)
    assert readers.protocol.training.holdout > 0
    assert np.isfinite(readers.rates).all()


def test_the_evidence_says_every_setting_and_what_it_was_selected_among() -> None:
    script = load_script("filters_mnist")
    named = script.settings()
    forms = {f"{case}, {form}" for case, task in script.CASES.items() for form in task.forms}
    assert set(named) == forms | {f"two-users, {name}" for name in script.USERS}
    assert all(found["kl"] > 0 for found in named.values())
    assert {"case 1", "case 2", "two users"} < set(script.SELECTION)
    assert all("circle" not in task.choice.names for task in [script.CASES["case-2"]])
