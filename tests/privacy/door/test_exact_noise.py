"""Exact noise through the door: each promise holds, and its check sees every planted fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.privacy import exact_rules as exact
from tests.privacy import influence_rules, rules
from tests.privacy.rig import enter, handle, kinds, leave, open_door, pixels, records
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door import private_records
from understudy.privacy.door.batch import Batch
from understudy.privacy.plan.events import DiscreteGaussian
from understudy.privacy.plan.mechanisms import (
    NoisySum,
    mechanism_from_json,
    mechanism_to_json,
)
from understudy.privacy.sums.grid import Grid, GridSum

PROMISES: dict[rules.Rule, list[exact.Fault]] = {
    exact.one_unit_moves_the_sum_by_at_most_the_sensitivity: [
        exact.rounded_to_nearest,
        exact.bounded_before_rounding,
        exact.a_step_for_one_sigma_less,
    ],
    exact.the_grid_is_public: [exact.grid_from_the_data, exact.rounding_after_the_sum],
    exact.noise_is_whole_and_of_its_scale: [
        exact.noise_in_floats,
        exact.noise_drawn_and_never_added,
        exact.a_twentieth_less_noise,
        exact.a_twentieth_more_noise,
        exact.a_step_for_one_sigma_less,
    ],
    exact.histograms_count_whole_units: [exact.counts_scaled_to_fit],
    exact.places_are_checked: [exact.places_taken_on_trust],
    exact.the_price_is_that_of_the_discrete_gaussian: [exact.charged_as_a_gaussian],
}


def _name(value: object) -> str:
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize("promise", PROMISES, ids=_name)
def test_the_promise_holds(tmp_path: Path, promise: rules.Rule) -> None:
    assert promise(tmp_path)


@pytest.mark.parametrize(
    ("promise", "fault"),
    [(promise, fault) for promise, planted in PROMISES.items() for fault in planted],
    ids=_name,
)
def test_the_check_sees_the_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, promise: rules.Rule, fault: exact.Fault
) -> None:
    fault(monkeypatch)
    assert not promise(tmp_path), "the fault went unseen"


@pytest.mark.parametrize(
    "rule",
    [
        rules.noise_is_secret,
        rules.method_sees_outputs_only,
        rules.reserved_before_noise_and_committed_before_output,
        influence_rules.a_person_counts_once_in_everything,
    ],
    ids=_name,
)
def test_the_rules_of_the_house_hold_with_exact_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: Callable[[Path], bool]
) -> None:
    planned = NoisySum("sum", clip=rules.CLIP, sigma=1.0, noise="exact")
    for module in (rules, influence_rules):
        monkeypatch.setattr(module, "SUM", planned)
    assert rule(tmp_path)


def test_a_committed_release_is_given_back_and_not_drawn_again(tmp_path: Path) -> None:
    door = open_door(tmp_path, exact.SUM)
    first = enter(door, records(5)).noisy_sum(pixels, clip=exact.CLIP, sigma=exact.SIGMA)
    leave(door)

    def never(batch: Batch) -> torch.Tensor:
        del batch
        raise AssertionError("computed again")

    again = enter(open_door(tmp_path), records(5))
    assert torch.equal(again.noisy_sum(never, clip=exact.CLIP, sigma=exact.SIGMA), first)
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]


@pytest.mark.parametrize("names", [["a", "b", "c"], ["a", "b", "b"]])
def test_how_many_records_people_have_chooses_no_arithmetic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """One person with two records must not move the last bits of everybody else."""
    declared: list[bool] = []

    class Watched(GridSum):
        def __init__(self, grid: Grid, width: int, device: torch.device, single: bool) -> None:
            declared.append(single)
            super().__init__(grid, width, device, single)

    monkeypatch.setattr(private_records, "GridSum", Watched)
    private = handle(tmp_path, records(3, units=names), exact.SUM)
    private.noisy_sum(pixels, clip=exact.CLIP, sigma=exact.SIGMA)
    assert declared == [False], "private records choose the arithmetic"


def test_no_records_get_noise_too(tmp_path: Path) -> None:
    released = handle(tmp_path, records(0), exact.SUM, count=3).noisy_sum(
        pixels, clip=exact.CLIP, sigma=exact.SIGMA
    )
    assert (released != 0).all()


def test_noise_is_added_to_whole_numbers_only(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match="int64"):
        open_door(tmp_path, exact.SUM).noised_on_grid(torch.zeros(3), exact.GRID)


def test_a_map_is_checked_for_places_too(tmp_path: Path) -> None:
    def by_place(rows: torch.Tensor) -> torch.Tensor:
        return rows + 1e-7 * torch.arange(len(rows)).reshape(-1, 1, 1, 1)

    with pytest.raises(PrivacyError, match="last bits"):
        handle(tmp_path / "exact", records(5), exact.SUM).map(by_place)
    float_sum = NoisySum("sum", clip=0.5, sigma=1.0)
    handle(tmp_path / "float", records(5), float_sum).map(by_place)  # within float's tolerance


def test_event_and_mechanism_are_written_and_read_back() -> None:
    event = exact.SUM.events(1)[0]
    assert event == DiscreteGaussian(exact.SIGMA, 1)
    assert mechanism_from_json(mechanism_to_json(exact.SUM)) == exact.SUM
    older = {k: v for k, v in mechanism_to_json(exact.SUM).items() if k != "noise"}
    assert mechanism_from_json(older) == NoisySum("sum", exact.CLIP, exact.SIGMA, noise="float")


@pytest.mark.parametrize("sigma", [2.0**-7, 2.0**21])
def test_a_sigma_without_a_grid_is_refused(sigma: float) -> None:
    NoisySum("sum", 1.0, sigma).check()
    with pytest.raises(UserError, match="float noise"):
        NoisySum("sum", 1.0, sigma, noise="exact").check()


def test_an_unknown_arithmetic_is_refused() -> None:
    with pytest.raises(UserError, match="exact or float"):
        NoisySum("sum", 1.0, 1.0, noise="fixed").check()
