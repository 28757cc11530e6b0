"""The rules of the house: each holds, and its check sees every fault planted against it.

Rules 7 (tuning is part of the price) and 10 (evaluation is the owner's) are about claims
and releases; their tests are in `tests/release`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.privacy import faults, influence_rules, rules

RULES: dict[tuple[int, rules.Rule], list[faults.Fault]] = {
    (1, rules.noise_is_secret): [
        faults.noise_from_torch,
        faults.noise_from_a_public_seed,
        faults.sampling_from_torch,
        faults.callbacks_on_the_users_seed,
    ],
    (1, rules.noise_differs_after_a_fork): [faults.stream_shared_after_fork],
    (2, rules.method_sees_outputs_only): [
        faults.generators_not_put_back,
        faults.loss_shown_to_the_method,
        faults.batch_size_shown_to_the_method,
        faults.per_record_gradients_left_on_parameters,
        faults.bars_that_count_records,
    ],
    (2, rules.ledger_tells_no_more_than_the_plan): [
        faults.times_in_the_ledger,
        faults.blocks_as_long_as_their_records_take,
    ],
    (3, rules.divisors_are_declared): [faults.divided_by_the_realised_batch],
    (4, influence_rules.all_that_join_count_once): [
        faults.last_micro_batch_dropped,
        faults.padding_counted,
    ],
    (4, influence_rules.empty_batches_get_noise): [faults.no_noise_when_nobody_joined],
    (4, influence_rules.one_unit_adds_at_most_the_clip): [
        faults.clipped_layer_by_layer,
        faults.clipped_in_half_precision,
        faults.not_finite_not_caught,
        faults.draws_clipped_apart,
    ],
    (5, influence_rules.units_keep_their_shards): [faults.shards_by_index],
    (6, influence_rules.a_person_counts_once_in_everything): [
        faults.units_ignored,
        faults.records_of_a_unit_clipped_apart,
    ],
    (6, influence_rules.a_person_joins_as_one): [faults.units_ignored],
    (8, rules.the_book_knows_before_the_first_record_is_read): [faults.book_written_afterwards],
    (9, influence_rules.aggregates_are_charged_for_a_replaced_shard): [
        faults.aggregate_noised_for_one_clip
    ],
    (9, influence_rules.shards_get_no_discount): [faults.discount_for_shards],
    (0, rules.reserved_before_noise_and_committed_before_output): [
        faults.noise_before_the_reservation,
        faults.output_before_the_commit,
    ],
}


def _name(value: object) -> str:
    return value.__name__ if callable(value) else str(value)


@pytest.mark.parametrize(("number", "rule"), RULES, ids=_name)
def test_the_rule_holds(tmp_path: Path, number: int, rule: rules.Rule) -> None:
    assert rule(tmp_path), f"rule {number}"


@pytest.mark.parametrize(
    ("rule", "fault"),
    [(rule, fault) for (_, rule), planted in RULES.items() for fault in planted],
    ids=_name,
)
def test_the_check_sees_the_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: rules.Rule, fault: faults.Fault
) -> None:
    fault(monkeypatch)
    assert not rule(tmp_path), "the fault went unseen"
