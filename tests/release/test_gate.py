"""Each rule of the gate: a clean run passes, a planted fault is refused with its reason."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.release.forge import FACTS, Story, make_claim, make_records, make_story, planned
from understudy.data.records import Images
from understudy.errors import PrivacyError
from understudy.privacy.plan.mechanisms import NoisySum, Reveal
from understudy.release.bundle import write_release
from understudy.release.claim import ON_TEST_DATA, Claim, Tuning
from understudy.release.facts import Randomness, RunFacts
from understudy.release.gate import copy_refusals, require, run_refusals

INSECURE = replace(FACTS, randomness=Randomness("a seed", insecure_seed=True))
AUDITED = replace(FACTS, audited=True)
LIMITED = replace(FACTS, limit=50)


def revealing(records: Images) -> tuple[Story, Claim]:
    story = planned(Reveal("peek", "to copy")).block(0, "peek", 1).add("close")
    return story, make_claim(story, records)


def test_clean_run_passes(story: Story, claim: Claim) -> None:
    assert run_refusals(claim, story.read()) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [(INSECURE, "insecure seed"), (AUDITED, "audited"), (LIMITED, "limited to about 50")],
)
def test_insecure_audited_and_limited_runs_are_refused(
    records: Images, tmp_path: Path, facts: RunFacts, words: str
) -> None:
    story = make_story(facts)
    claim = make_claim(story, records)
    assert words in run_refusals(claim, story.read())[0]
    ledger = story.write(tmp_path / "ledger.jsonl")
    with pytest.raises(PrivacyError, match=words):
        write_release(tmp_path / "out", records=records, claim=claim, ledger=ledger, title="x")
    assert not (tmp_path / "out").exists()


def test_insecure_seed_cannot_be_talked_away(records: Images) -> None:
    """The claim is edited to say the noise was secret; the ledger still knows."""
    story = make_story(INSECURE)
    claim = replace(make_claim(story, records), randomness=Randomness())
    assert "insecure seed" in run_refusals(claim, story.read())[0]


def test_selection_on_test_data_is_refused(story: Story, claim: Claim) -> None:
    chosen = replace(claim, tuning=Tuning(False, ("a", "b"), ON_TEST_DATA))
    assert "selected on test data" in run_refusals(chosen, story.read())[0]
    by_synthetic = replace(claim, tuning=Tuning(True, ("a", "b"), "held-out synthetic data"))
    assert run_refusals(by_synthetic, story.read()) == []


def test_unfinished_run_is_refused(records: Images, tmp_path: Path) -> None:
    story = planned(NoisySum("sum", 1.0, 4.0)).block(0, "sum", 1)
    claim = make_claim(story, records)
    assert "not finished" in run_refusals(claim, story.read())[0]
    ledger = story.write(tmp_path / "ledger.jsonl")
    with pytest.raises(PrivacyError, match="not finished"):
        write_release(tmp_path / "out", records=records, claim=claim, ledger=ledger, title="x")


def test_all_reasons_are_listed(records: Images) -> None:
    story = make_story(replace(INSECURE, audited=True))
    reasons = run_refusals(make_claim(story, records), story.read())
    assert len(reasons) == 2
    with pytest.raises(PrivacyError, match=r"insecure seed.*audited"):
        require(reasons)
    require([])


def test_empirical_release_is_refused_when_it_repeats_private_records(records: Images) -> None:
    _, claim = revealing(records)
    assert "needs the private records" in copy_refusals(claim, records, None)[0]
    assert "24 of the 24 records are copies" in copy_refusals(claim, records, records)[0]
    assert copy_refusals(claim, records, make_records(30, seed=5)) == []


def test_copying_empirical_release_is_not_written(records: Images, tmp_path: Path) -> None:
    story, claim = revealing(records)
    ledger = story.write(tmp_path / "ledger.jsonl")
    common = {"records": records, "claim": claim, "ledger": ledger, "title": "x"}
    with pytest.raises(PrivacyError, match="copies of private ones"):
        write_release(tmp_path / "out", **common, private=records)
    write_release(tmp_path / "out", **common, private=make_records(30, seed=5))
    assert (tmp_path / "out" / "claim.json").exists()


def test_near_copies_close_the_gate_of_an_empirical_release(
    records: Images, tmp_path: Path
) -> None:
    """One record is a private one, a grey level brighter; all others are new."""
    story, claim = revealing(records)
    ledger = story.write(tmp_path / "ledger.jsonl")
    private, held_out = make_records(60, seed=5), make_records(60, seed=6)
    pixels = private.features.copy()
    pixels[7] = np.clip(records.features[3].astype(int) + 1, 0, 255)
    leaked = replace(private, features=pixels)
    common = {"records": records, "claim": claim, "ledger": ledger, "title": "x"}
    with pytest.raises(PrivacyError, match="1 of 24 records are near copies of private ones"):
        write_release(tmp_path / "out", **common, private=leaked, held_out=held_out)
    assert not (tmp_path / "out").exists()
    write_release(tmp_path / "out", **common, private=private, held_out=held_out)
    assert (tmp_path / "out").exists()


class Untouchable(Images):
    """Private records that must not be looked at."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"private records were looked at: {name}")


def test_private_records_never_decide_a_private_release(claim: Claim, records: Images) -> None:
    """Rule 10: for a DP claim, even a copy of everything goes through unseen."""
    untouchable = object.__new__(Untouchable)
    with pytest.raises(AssertionError, match="looked at"):
        np.asarray(untouchable.features)
    assert copy_refusals(claim, records, untouchable, untouchable) == []
    assert copy_refusals(claim, records, records) == []
