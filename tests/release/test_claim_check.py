from dataclasses import replace
from typing import Any

import pytest

from tests.release.forge import FACTS, Story, make_claim, make_records, planned
from understudy.privacy.plan.mechanisms import LocalRelease, NoisySum
from understudy.release.build import reckon
from understudy.release.claim import Claim, LedgerMark
from understudy.release.claim_check import claim_problems, version_notes
from understudy.release.facts import MethodFacts, Randomness


def problems_of(claim: Claim, story: Story) -> list[str]:
    return claim_problems(claim, story.read(), reckon(story.read()))


def test_true_claim_passes(story: Story, claim: Claim) -> None:
    assert problems_of(claim, story) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.5}, "the claim says epsilon 0.5, but the ledger's events cost 0.926"),
        ({"epsilon": 5.0}, "the claim says epsilon 5"),
        ({"delta": 1e-6}, "delta"),
        ({"accountant": "RDP, dp_accounting 0.6.0"}, "accountant"),
        ({"kind": "local"}, "kind"),
        ({"unit": "patient"}, "unit"),
        ({"relation": "replace-one"}, "relation"),
        ({"split": "given"}, "split"),
        ({"assumed_public": ()}, "assumed_public"),
        ({"randomness": Randomness("dice")}, "randomness"),
        ({"method": MethodFacts("other", "paper")}, "method"),
        ({"ledger": LedgerMark("0" * 64, 4)}, 'the claim\'s ledger is {"head": "0000'),
        ({"spending": ()}, "lists 0 uses"),
    ],
)
def test_every_field_is_held_against_the_ledger(
    story: Story, claim: Claim, change: dict[str, Any], words: str
) -> None:
    assert words in " ".join(problems_of(replace(claim, **change), story))


@pytest.mark.parametrize(
    ("factor", "accepted"), [(1 + 5e-7, True), (1 - 5e-7, True), (0.99999, False)]
)
def test_tolerance_has_two_sides(story: Story, claim: Claim, factor: float, accepted: bool) -> None:
    edited = replace(claim, epsilon=claim.epsilon * factor)
    assert (problems_of(edited, story) == []) == accepted


@pytest.mark.parametrize("change", [{"spent": 0}, {"sigma": 5.0}, {"epsilon_alone": 0.1}])
def test_spending_rows_are_recomputed(story: Story, claim: Claim, change: dict[str, Any]) -> None:
    row = replace(claim.spending[0], **change)
    problems = problems_of(replace(claim, spending=(row,)), story)
    assert problems == [
        "the claim's spending on 'embedding' is not what the ledger gives for 'embedding'."
    ]


def test_plan_that_states_another_cost_than_its_events_is_named() -> None:
    story = planned(NoisySum("sum", 1.0, 4.0), epsilon=0.5).block(0, "sum", 1).add("close")
    claim = make_claim(story, make_records())
    assert "the plan states epsilon 0.5" in problems_of(claim, story)[0]


def test_other_version_of_the_accountant_is_a_note_not_a_problem(
    story: Story, claim: Claim
) -> None:
    method, _, _ = claim.accountant.partition(", ")
    old = replace(claim, accountant=f"{method}, dp_accounting 0.0.1")
    assert problems_of(old, story) == []
    assert "0.0.1" in version_notes(old, reckon(story.read()).price)[0]
    assert version_notes(claim, reckon(story.read()).price) == []


def test_a_plan_under_another_relation_is_not_priced_as_ours() -> None:
    story = planned(NoisySum("embedding", 1.0, 4.0)).block(0, "embedding", 1).add("close")
    story.entries[0][1]["plan"]["relation"] = "add-or-remove one pixel"
    claim = make_claim(story, make_records())
    assert "priced under 'add-or-remove one unit'" in " ".join(problems_of(claim, story))


def test_a_local_claim_is_per_image_even_where_records_have_units() -> None:
    facts = replace(FACTS, unit="patient")
    story = planned(LocalRelease("leave", 1.0, 3.0), facts=facts).block(0, "leave", 1).add("close")
    claim = make_claim(story, make_records())
    assert claim.kind == "local"
    assert claim.statement[0].endswith("per image, not per person.")
    assert problems_of(claim, story) == []


@pytest.mark.parametrize("stated", ["exact", "float"])
@pytest.mark.parametrize("planned_noise", ["exact", "float"])
def test_exact_noise_is_believed_only_if_the_plan_has_it(stated: str, planned_noise: str) -> None:
    facts = replace(FACTS, randomness=Randomness(noise=stated))
    story = planned(NoisySum("embedding", 1.0, 4.0, noise=planned_noise), facts=facts)
    story.block(0, "embedding", 1).add("close")
    claim = make_claim(story, make_records())
    expected = f"the run states {stated} noise, but its plan has {planned_noise}."
    assert problems_of(claim, story) == ([] if stated == planned_noise else [expected])
