import pytest

from tests.release.forge import Story, long_story, make_story, planned
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum
from understudy.release.ledger_check import ledger_problems


def steps() -> Story:
    return planned(NoisySum("sum", 1.0, 4.0), DPSGD("critic", 10, 0.05, 1.0, 1.5))


@pytest.mark.parametrize("story", [make_story(), long_story()])
def test_good_stories_pass(story: Story) -> None:
    assert ledger_problems(story.read()) == []


@pytest.mark.parametrize(
    ("story", "words"),
    [
        (Story(), "does not begin with a plan"),
        (Story().add("close"), "does not begin with a plan"),
        (Story().add("plan", plan={}), "the plan cannot be read"),
        (Story([*steps().entries, steps().entries[0]]).add("close"), "a second plan"),
        (
            steps().add("commit", block=0, mechanism="sum", uses=1).add("close"),
            "line 2: block 0 is committed without having been reserved",
        ),
        (steps().add("void", block=0).add("close"), "voided without being open"),
        (steps().block(0, "sum", 1).block(0, "sum", 1), "reserved a second time"),
        (steps().block(0, "sum", 1).block(1, "sum", 1).add("close"), "beyond the 1 planned"),
        (steps().block(0, "critic", 11).add("close"), "beyond the 10 planned"),
        (steps().add("reserve", block=0, mechanism="critic", uses=11), "beyond the 10 planned"),
        (steps().block(0, "critic", 4, done=5).add("close"), "commits 5 uses of 4 reserved"),
        (steps().block(0, "other", 1).add("close"), "no mechanism 'other'"),
        (
            steps()
            .add("reserve", block=0, mechanism="sum", uses=1)
            .add("commit", block=0, mechanism="critic", uses=1)
            .add("close"),
            "reserved for 'sum' and committed for 'critic'",
        ),
        (steps().block(0, "critic", -1).add("close"), "uses must be a whole number"),
        (steps().add("reserve", block=True, mechanism="sum", uses=1), "does not name its block"),
        (steps().add("refund", block=0).add("close"), "unknown kind 'refund'"),
        (steps().block(0, "sum", 1), "not closed"),
        (steps().add("close").block(0, "sum", 1), "follows the close"),
        (steps().add("close").add("close"), "follows the close"),
    ],
)
def test_stories_that_cannot_have_happened_are_named(story: Story, words: str) -> None:
    assert words in " ".join(ledger_problems(story.read()))


def test_voids_give_back_and_open_blocks_do_not() -> None:
    story = steps().add("reserve", block=0, mechanism="critic", uses=10)
    again = Story([*story.entries]).add("reserve", block=1, mechanism="critic", uses=10)
    assert "beyond" in " ".join(ledger_problems(again.read()))
    story.add("void", block=0).block(1, "critic", 10).add("close")
    assert ledger_problems(story.read()) == []


def test_steps_not_done_may_be_done_later() -> None:
    story = steps().block(0, "critic", 10, done=3).block(1, "critic", 7).add("close")
    assert ledger_problems(story.read()) == []
    story = steps().block(0, "critic", 10, done=3).block(1, "critic", 8).add("close")
    assert "beyond the 10 planned" in " ".join(ledger_problems(story.read()))
