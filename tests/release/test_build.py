import math
from dataclasses import replace

import pytest

from tests.release.forge import DELTA, FACTS, Story, long_story, make_claim, make_story, planned
from understudy.data.records import Images
from understudy.errors import PrivacyError, UserError
from understudy.privacy.accounting.accountants import local_price, price
from understudy.privacy.plan.events import Gaussian, LocalGaussian, NonPrivate
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum, Reveal
from understudy.release.build import current_versions, price_events, reckon
from understudy.release.claim import Claim
from understudy.release.facts import RunFacts


def test_claim_is_computed_from_the_ledger(story: Story, records: Images, claim: Claim) -> None:
    assert claim.kind == "central"
    assert claim.epsilon == price([Gaussian(4.0)], DELTA).epsilon
    assert claim.delta == DELTA
    assert claim.ledger.length == 4
    assert claim.format == "understudy-claim/2"
    assert claim.ledger.head == story.read()[-1].hash
    assert claim.records.count == len(records)
    assert claim.method == FACTS.method


def test_stopping_early_never_lowers_epsilon(records: Images) -> None:
    plan = DPSGD("critic", 100, 0.05, 1.0, 1.0)
    whole = planned(plan).block(0, "critic", 100).add("close")
    early = planned(plan).block(0, "critic", 100, done=3).add("close")
    assert make_claim(early, records).epsilon == make_claim(whole, records).epsilon
    assert make_claim(early, records).spending[0].spent == 3
    assert reckon(early.read()).spending[0].planned == 100


def test_ledger_beyond_its_plan_raises_the_claim(records: Images) -> None:
    story = planned(NoisySum("sum", 1.0, 4.0))
    story.add("reserve", block=0, mechanism="sum", uses=9)
    claim = make_claim(story, records)
    assert claim.epsilon == price([Gaussian(4.0, 9)], DELTA).epsilon
    assert claim.epsilon > price([Gaussian(4.0)], DELTA).epsilon


def test_open_reservation_counts_and_void_does_not(records: Images) -> None:
    plan = DPSGD("critic", 10, 0.05, 1.0, 1.0)
    opened = planned(plan).add("reserve", block=0, mechanism="critic", uses=7)
    assert make_claim(opened, records).spending[0].spent == 7
    opened.add("void", block=0)
    assert make_claim(opened, records).spending[0].spent == 0


def test_plan_that_states_more_than_it_costs_is_believed(records: Images) -> None:
    story = planned(NoisySum("sum", 1.0, 4.0), epsilon=2.0).block(0, "sum", 1).add("close")
    assert make_claim(story, records).epsilon == 2.0


@pytest.mark.parametrize("used", [True, False])
def test_reveal_planned_or_spent_makes_it_empirical(records: Images, used: bool) -> None:
    story = planned(NoisySum("sum", 1.0, 4.0), Reveal("peek", "to copy"))
    story.block(0, "peek" if used else "sum", 1).add("close")
    claim = make_claim(story, records)
    assert claim.kind == "empirical"
    assert math.isinf(claim.epsilon)
    assert [math.isinf(s.epsilon_alone) for s in claim.spending] == [False, True]


def test_plan_without_a_bound_makes_it_empirical(records: Images) -> None:
    story = planned(NoisySum("sum", 1.0, 4.0), epsilon=math.inf).block(0, "sum", 1).add("close")
    claim = make_claim(story, records)
    assert (claim.kind, claim.epsilon) == ("empirical", math.inf)


def test_events_have_kinds() -> None:
    assert price_events([Gaussian(2.0)], DELTA).kind == "central"
    local = price_events([LocalGaussian(2.0)], DELTA)
    assert local.kind == "local"
    assert local.epsilon == local_price([LocalGaussian(2.0)], DELTA).epsilon
    assert price_events([LocalGaussian(2.0), NonPrivate("x")], DELTA).kind == "empirical"
    assert price_events([], DELTA).epsilon == 0
    with pytest.raises(PrivacyError, match="cannot be composed"):
        price_events([Gaussian(2.0), LocalGaussian(2.0)], DELTA)


def test_spending_lists_each_mechanism_alone(records: Images) -> None:
    claim = make_claim(long_story(), records)
    rows = {row.name: row for row in claim.spending}
    assert (rows["embedding"].planned, rows["embedding"].spent) == (1, 1)
    assert (rows["votes"].planned, rows["votes"].spent) == (10, 10)
    assert rows["embedding"].sigma == 8.0
    assert all(0 < row.epsilon_alone < claim.epsilon for row in claim.spending)


def test_assumed_public_always_lists_what_every_plan_rests_on(records: Images) -> None:
    facts = replace(FACTS, unit="patient", assumed_public=("the label histogram",))
    claim = make_claim(make_story(facts), records)
    assert claim.assumed_public[0] == "the declared number of private values of 'patient' (1797)"
    always = ("the names of attributes and classes", "the size of an image")
    assert claim.assumed_public[1:] == (*always, "the label histogram")
    assert claim.unit == "patient"


def test_ledger_without_facts_supports_no_claim(records: Images) -> None:
    story = make_story()
    plan = story.entries[0][1]["plan"]
    for body, named in (
        ({"plan": plan}, "does not state the facts"),
        ({"plan": plan, "run": {"method": "x"}}, r"run\.paper is missing"),
        ({"plan": plan, "run": {**FACTS.to_json(), "split": "odd"}}, r"run\.split must be"),
    ):
        story.entries[0] = ("plan", body)
        with pytest.raises(UserError, match=named):
            make_claim(story, records)


def test_run_facts_survive_the_ledger() -> None:
    assert RunFacts.from_json(FACTS.to_json()) == FACTS
    with pytest.raises(UserError, match=r"ledger\.jsonl: unknown field run\.more"):
        RunFacts.from_json({**FACTS.to_json(), "more": 1})


def test_versions_name_what_matters() -> None:
    assert {"python", "numpy", "dp-accounting"} <= set(current_versions())
