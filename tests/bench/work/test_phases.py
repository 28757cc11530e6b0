"""Phases: done once for a key, recorded with time, memory and machine; a limit shows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests import drawing
from tests.bench.rig import LIMIT, cell, check_whole, run_all
from tests.run.public_method import TINTED, write_tint
from tests.workplace import Workplace
from understudy.bench.evidence.recompute import recomputed
from understudy.bench.evidence.store import read_store
from understudy.bench.work import phases
from understudy.bench.work.cell_folder import PHASES
from understudy.bench.work.workspace import State, Workspace
from understudy.data.weights_file import digest_of
from understudy.errors import UserError
from understudy.evaluation.protocol import load_protocol
from understudy.evaluation.utility import Gen2RealAccuracy
from understudy.privacy.ledger.ledger import read_ledger
from understudy.release.build import run_facts
from understudy.release.claim import Claim
from understudy.release.gate import run_refusals


@pytest.fixture(scope="module")
def done(shared_workplace: Workplace) -> Workplace:
    """One small cell that is finished."""
    outcome, _, _ = run_all(shared_workplace, cell(shared_workplace))
    assert outcome.ok
    check_whole(shared_workplace, cells=1)
    return shared_workplace


def evidence(place: Workplace) -> list[dict[str, Any]]:
    files = sorted((place / "bench/evidence").glob("*.json"))
    return [json.loads(path.read_text()) for path in files]


def test_every_phase_says_what_it_took_and_where(done: Workplace) -> None:
    (found,) = evidence(done)
    assert set(found["phases"]) == set(PHASES)
    for phase in found["phases"].values():
        assert phase["seconds"] > 0
        assert 0.05 < phase["peak_gigabytes"] < 16
        assert phase["hardware"]["device"] == "cpu"
        assert phase["versions"]["torch"]
        assert phase["commit"] == found["commit"]
    assert found["status"] == "ok"
    assert found["claim"]["epsilon"] <= 1.0
    assert found["data"]["hash"]


def test_the_evidence_of_a_run_holds_its_plan(workplace: Workplace) -> None:
    """Every mechanism whole, so that epsilon follows; the ident of the plan stays here."""
    outcome, _, _ = run_all(workplace, cell(workplace, "dp-gan"))
    assert outcome.ok
    (found,) = evidence(workplace)
    (entered,) = workplace.book("enter")
    assert found["claim"]["mechanisms"] == entered["plan"]["mechanisms"]
    assert found["claim"]["relation"] == entered["plan"]["relation"]
    assert recomputed(found["claim"]).epsilon == pytest.approx(entered["plan"]["epsilon"])
    assert entered["plan"]["ident"] not in json.dumps(found)


def test_a_method_that_hides_stands_in_a_suite(workplace: Workplace) -> None:
    drawing.metadata_folder(workplace / "photos", count=80)
    mine = cell(
        workplace,
        "tests.contract.toys.hidden_attribute:HiddenAttribute",
        dataset=str(workplace / "photos"),
        settings=(),
        label="kind",
        hide="eyes",
        epsilon=8.0,
    )
    outcome, _, _ = run_all(workplace, mine)
    assert outcome.ok, outcome
    (found,) = evidence(workplace)
    assert found["config"]["hide"] == ["eyes"]
    assert "keep" not in found["config"]
    assert [m["part"] for m in found["claim"]["mechanisms"]] == ["kept", "hidden"]


def test_the_evidence_of_a_run_names_its_public_inputs(workplace: Workplace) -> None:
    """Several of each, without the places where they lie."""
    drawing.class_folder(workplace / "open", count=12)
    warm, cold = (write_tint(workplace / f"{n}.npz", t) for n, t in (("warm", 0.5), ("cold", 0.2)))
    mine = cell(
        workplace,
        TINTED,
        settings=(),
        public=(f"faces={workplace / 'open'}", "scenes=portraits"),
        weights=(f"warm={warm}", f"cold={cold}"),
        size=8,
        channels=1,
    )
    outcome, _, _ = run_all(workplace, mine)
    assert outcome.ok, outcome
    (found,) = evidence(workplace)
    assert found["config"]["public"] == ["faces=open", "scenes=portraits"]
    assert found["config"]["weights"] == {"warm": digest_of(warm), "cold": digest_of(cold)}
    assert len(read_store(workplace / "bench/evidence").files) == 1


def test_a_run_whose_claim_does_not_follow_is_a_failure_without_a_claim(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = phases._claim
    monkeypatch.setattr(phases, "_claim", lambda work: {**told(work), "epsilon": 0.5})
    outcome, _, _ = run_all(workplace, cell(workplace))
    assert not outcome.ok
    (found,) = evidence(workplace)
    assert (found["status"], found["claim"], found["metrics"]) == ("failed", None, None)
    assert "its claim says epsilon 0.5, but its mechanisms cost 0.99" in found["reason"]


def test_no_release_and_no_report_is_written(done: Workplace) -> None:
    names = {path.name for path in done.folder.rglob("*")}
    assert not names & {"release.json", "report.html", "report-public.html", "croissant.json"}


def test_a_limit_shows_in_metrics_evidence_and_ledger(done: Workplace) -> None:
    (found,) = evidence(done)
    assert found["limit"] == found["config"]["limit"] == LIMIT
    assert f"limited to about {LIMIT}" in found["metrics"]["protocol"]["stamp"]
    (folder,) = (done / "bench/cells").iterdir()
    entries = read_ledger(folder / "run/ledger.jsonl")
    assert entries[0].body["run"]["limit"] == LIMIT
    assert entries[0].body["run"]["parts"] == {"train": LIMIT}
    claim = Claim.from_json(json.loads(next(folder.rglob("claim.json")).read_text()))
    assert "smoke run" in run_refusals(claim, run_facts(entries))[0]


def test_a_second_start_touches_nothing(done: Workplace) -> None:
    before = {p: p.stat().st_mtime_ns for p in done.folder.rglob("*") if p.is_file()}
    outcome, executor, show = run_all(done, cell(done))
    assert outcome.ok
    assert executor.started == []
    assert show.changes == []
    after = {p: p.stat().st_mtime_ns for p in done.folder.rglob("*") if p.is_file()}
    assert {p.name for p in after if after[p] != before.get(p)} <= {"quick.yaml"}


def test_what_depends_on_what(done: Workplace) -> None:
    """A protocol only evaluates again, a count only samples, a setting fits anew elsewhere."""
    space, base = Workspace(done / "bench"), cell(done)
    other = done / "other.yaml"
    changed = load_protocol(base.protocol).changed({"seeds": 2})
    other.write_text(yaml.safe_dump({**changed.to_json(), "name": "other"}))
    measured = space.standing(replace(base, protocol=str(other)))
    assert (measured.state, measured.open_phases) == (State.SAMPLED, ("evaluate",))
    sampled = space.standing(replace(base, samples=20))
    assert (sampled.state, sampled.open_phases) == (State.FITTED, ("sample", "evaluate"))
    fitted = space.standing(replace(base, settings=(*base.settings[:-1], "width=24")))
    assert (fitted.state, fitted.open_phases) == (State.WAITING, PHASES)
    assert measured.folder == sampled.folder != fitted.folder
    assert space.standing(base).state is State.DONE


def test_a_changed_protocol_evaluates_again_and_spends_nothing(workplace: Workplace) -> None:
    first = cell(workplace)
    run_all(workplace, first)
    ledgers = {p: p.read_bytes() for p in workplace.folder.rglob("ledger.jsonl")}
    other = workplace / "other.yaml"
    changed = load_protocol(first.protocol).changed({"seeds": 2})
    other.write_text(yaml.safe_dump({**changed.to_json(), "name": "other"}))
    outcome, executor, _ = run_all(workplace, first, replace(first, protocol=str(other)))
    assert outcome.ok
    assert len(executor.started) == 1
    assert {p: p.read_bytes() for p in workplace.folder.rglob("ledger.jsonl")} == ledgers
    assert len(workplace.book("enter")) == 1
    assert len(evidence(workplace)) == 2


def test_evidence_that_was_deleted_is_written_again_from_the_run(workplace: Workplace) -> None:
    run_all(workplace, cell(workplace))
    (path,) = (workplace / "bench/evidence").glob("*.json")
    before = json.loads(path.read_text())
    path.unlink()
    outcome, _, _ = run_all(workplace, cell(workplace))
    assert outcome.ok
    after = json.loads(path.read_text())
    assert after["metrics"] == before["metrics"]
    assert after["phases"] == before["phases"]
    check_whole(workplace, cells=1)


def test_the_store_trusts_what_was_written(done: Workplace) -> None:
    store = read_store(done / "bench/evidence")
    assert [file.trusted for file in store.of_kind("run")] == [True]


@pytest.mark.parametrize("dataset", ["photos", "digits"])
def test_why_a_metric_failed_is_told_of_public_data_only(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, dataset: str
) -> None:
    """The words of an error may name what was in the data."""

    def fails(*_: object) -> None:
        raise UserError("the image of Ann Other is torn")

    monkeypatch.setattr(Gen2RealAccuracy, "measure", fails)
    drawing.class_folder(workplace / "photos")
    private = dataset == "photos"
    source, limit = (str(workplace / dataset), None) if private else (dataset, LIMIT)
    outcome, _, _ = run_all(workplace, cell(workplace, dataset=source, limit=limit))
    assert outcome.ok
    (found,) = evidence(workplace)
    row, balanced = found["metrics"]["rows"]
    assert (row["status"], row["value"]) == ("failed", None)
    assert balanced["status"] == "ok"
    assert ("Ann Other" in json.dumps(found)) == (not private)
    (kept,) = workplace.folder.glob("bench/cells/*/evaluated/*/metrics.json")
    assert "Ann Other" in kept.read_text()
