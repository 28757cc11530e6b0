"""The rules of the house, as checks on a running door: each holds.

Rules 7 (tuning is part of the price) and 10 (evaluation is the owner's) are about claims
and releases; their tests are in `tests/release` and `tests/run`. The faults that prove these
checks are planted by `tests/mutants`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.privacy import influence_rules, rules

RULES: list[tuple[int, rules.Rule]] = [
    (1, rules.noise_is_secret),
    (1, rules.noise_differs_after_a_fork),
    (2, rules.method_sees_outputs_only),
    (2, rules.ledger_tells_no_more_than_the_plan),
    (3, rules.divisors_are_declared),
    (4, influence_rules.all_that_join_count_once),
    (4, influence_rules.empty_batches_get_noise),
    (4, influence_rules.one_unit_adds_at_most_the_clip),
    (5, influence_rules.units_keep_their_shards),
    (6, influence_rules.a_person_counts_once_in_everything),
    (6, influence_rules.a_person_joins_as_one),
    (8, rules.the_book_knows_before_the_first_record_is_read),
    (9, influence_rules.aggregates_are_charged_for_a_replaced_shard),
    (9, influence_rules.shards_get_no_discount),
    (0, rules.reserved_before_noise_and_committed_before_output),
]


def _name(value: object) -> str:
    return value.__name__ if callable(value) else str(value)


@pytest.mark.parametrize(("number", "rule"), RULES, ids=_name)
def test_the_rule_holds(tmp_path: Path, number: int, rule: rules.Rule) -> None:
    assert rule(tmp_path), f"rule {number}"
