"""Each rule of the gate: a clean run passes, a planted fault is refused with its reason."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.release.forge import (
    FACTS,
    make_records,
    make_story,
    planned,
    planned_by,
    released_claim,
)
from understudy.data.records import Images
from understudy.errors import PrivacyError
from understudy.privacy.plan.mechanisms import Reveal
from understudy.release.bundle import write_release
from understudy.release.claim import ON_TEST_DATA, Claim, Tuning
from understudy.release.facts import Randomness, RunFacts
from understudy.release.gate import copy_refusals, require, run_refusals
from understudy.release.near_copies import scan_copies

INSECURE = replace(FACTS, randomness=Randomness("a seed", insecure_seed=True))
AUDITED = replace(FACTS, audited=True)
LIMITED = replace(FACTS, limit=50)


def revealing(records: Images) -> dict[str, object]:
    """A release of records that were revealed: all but the scan for copies."""
    story = planned(Reveal("peek", "to copy"))
    plan, facts = planned_by(story)
    claim = released_claim(story, records)
    return {"records": records, "claim": claim, "plan": plan, "facts": facts, "title": "x"}


def test_clean_run_passes(claim: Claim) -> None:
    assert run_refusals(claim, FACTS) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [(INSECURE, "insecure seed"), (AUDITED, "audited"), (LIMITED, "limited to about 50")],
)
def test_insecure_audited_and_limited_runs_are_refused(
    records: Images, tmp_path: Path, facts: RunFacts, words: str
) -> None:
    story = make_story(facts)
    claim, (plan, _) = released_claim(story, records), planned_by(story)
    assert words in run_refusals(claim, facts)[0]
    with pytest.raises(PrivacyError, match=words):
        write_release(
            tmp_path / "out", records=records, claim=claim, plan=plan, facts=facts, title="x"
        )
    assert not (tmp_path / "out").exists()


def test_insecure_seed_cannot_be_talked_away(records: Images) -> None:
    """The claim is edited to say the noise was secret; the ledger still knows."""
    claim = replace(released_claim(make_story(INSECURE), records), randomness=Randomness())
    assert "insecure seed" in run_refusals(claim, INSECURE)[0]


def test_selection_on_test_data_is_refused(claim: Claim) -> None:
    chosen = replace(claim, tuning=Tuning(False, ("a", "b"), ON_TEST_DATA))
    assert "selected on test data" in run_refusals(chosen, FACTS)[0]
    by_synthetic = replace(claim, tuning=Tuning(True, ("a", "b"), "held-out synthetic data"))
    assert run_refusals(by_synthetic, FACTS) == []


def test_all_reasons_are_listed(records: Images) -> None:
    facts = replace(INSECURE, audited=True)
    reasons = run_refusals(released_claim(make_story(facts), records), facts)
    assert len(reasons) == 2
    with pytest.raises(PrivacyError, match=r"insecure seed.*audited"):
        require(reasons)
    require([])


def test_empirical_release_is_refused_when_it_repeats_private_records(records: Images) -> None:
    claim = released_claim(planned(Reveal("peek", "to copy")), records)
    assert "needs a scan" in copy_refusals(claim, 24, None)[0]
    copies = scan_copies(records, records)
    assert "24 of the 24 records are copies" in copy_refusals(claim, 24, copies)[0]
    assert copy_refusals(claim, 24, scan_copies(records, make_records(30, seed=5))) == []


def test_a_scan_of_some_of_the_records_is_not_enough(records: Images) -> None:
    claim = released_claim(planned(Reveal("peek", "to copy")), records)
    private = make_records(30, seed=5)
    for scan in (scan_copies(records, private, most=10), scan_copies(make_records(9), private)):
        assert "needs a scan of all its records" in copy_refusals(claim, 24, scan)[0]


def test_copying_empirical_release_is_not_written(records: Images, tmp_path: Path) -> None:
    common = revealing(records)
    with pytest.raises(PrivacyError, match="copies of private ones"):
        write_release(tmp_path / "out", **common, scan=scan_copies(records, records))
    new = scan_copies(records, make_records(30, seed=5))
    write_release(tmp_path / "out", **common, scan=new)
    assert (tmp_path / "out" / "claim.json").exists()


def test_near_copies_close_the_gate_of_an_empirical_release(
    records: Images, tmp_path: Path
) -> None:
    """One record is a private one, a grey level brighter; all others are new."""
    private, held_out = make_records(60, seed=5), make_records(60, seed=6)
    pixels = private.features.copy()
    pixels[7] = np.clip(records.features[3].astype(int) + 1, 0, 255)
    leaked = replace(private, features=pixels)
    common = revealing(records)
    with pytest.raises(PrivacyError, match="1 of 24 records are near copies of private ones"):
        write_release(tmp_path / "out", **common, scan=scan_copies(records, leaked, held_out))
    assert not (tmp_path / "out").exists()
    write_release(tmp_path / "out", **common, scan=scan_copies(records, private, held_out))
    assert (tmp_path / "out").exists()


def test_private_records_never_decide_a_private_release(claim: Claim, records: Images) -> None:
    """Rule 10: a DP claim goes out without any look at private records, and never with one."""
    assert copy_refusals(claim, 24, None) == []
    for private in (records, make_records(30, seed=5)):
        found = copy_refusals(claim, 24, scan_copies(records, private))
        assert found == ["a scan of private records decides about no such claim."]
