"""Classifiers trained on another machine: the same figures, once, and only for what they are of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bench.rig import cell, check_whole, run_all
from tests.workplace import Workplace
from understudy.bench.away import fit_jobs as away
from understudy.bench.away.classify_job import Classified, ClassifyJob
from understudy.bench.away.classify_packing import pack_evaluations
from understudy.bench.away.collect import collect
from understudy.bench.away.pack import Moved, pack
from understudy.bench.away.packed_files import PackedFiles
from understudy.bench.evidence.store import read_store
from understudy.bench.evidence.views import ask
from understudy.bench.suite.cell import Cell
from understudy.bench.work.workspace import Workspace
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation import case as case_module
from understudy.evaluation.protocol import load_protocol
from understudy.progress import Silent

ROOT = Path(__file__).parents[3]
PHASES = "fit,sample,classify"
SAMPLES = 31
"""A number that the random number of training records, about 60, will not be."""


def two_classifiers(place: Workplace, **changes: Any) -> str:
    """Both utility metrics, two classifiers, figures over them; no time at all."""
    plain = {
        "metrics": ["gen2real", "real2gen"],
        "classifiers": ["mlp", "mlp-100"],
        "summaries": ["mean", "best"],
        "seeds": 1,
        "training": {"epochs": 1, "least_steps": 5},
    }
    chosen = load_protocol("reduced").changed({**plain, **changes})
    path = place / "two.yaml"
    path.write_text(yaml.safe_dump(chosen.to_json()))
    return str(path)


def measured_cell(place: Workplace, **changes: Any) -> Cell:
    protocol = changes.pop("protocol", None) or two_classifiers(place)
    return cell(place, **{"protocol": protocol, "samples": SAMPLES, **changes})


def packed(place: Workplace, *cells: Cell, job: str = "job") -> list[Moved]:
    workspace = Workspace(place / "bench")
    fits = pack(cells, workspace, place / job, place.home, Silent())
    return fits + pack_evaluations(cells, workspace, place / job, place.home, Silent())


def collected(place: Workplace, source: str) -> list[Moved]:
    return collect(place / source, Workspace(place / "bench"), place.home)


def work_off(place: Workplace, phases: str = PHASES, job: str = "job") -> int:
    words = [str(place / job), "--phases", phases, "--result", str(place / f"{job}-result")]
    return away.main(words)


def counting(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> list[str]:
    """Every training from now on, by classifier and what it learns from; one may be cut off."""
    seen: list[str] = []
    original = case_module.fit_classifier

    def counted(name: str, records: Records, *rest: Any, **named: Any) -> Any:
        if len(seen) == stop_at:
            raise KeyboardInterrupt
        seen.append(f"{name} of {'synthetic' if len(records) == SAMPLES else 'real'}")
        return original(name, records, *rest, **named)

    monkeypatch.setattr(case_module, "fit_classifier", counted)
    return seen


def rows(place: Workplace) -> list[dict[str, Any]]:
    (path,) = place.folder.glob("bench/cells/*/evaluated/*/metrics.json")
    found: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    return found


def test_figures_from_away_are_those_of_home_and_nothing_is_trained_again(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = measured_cell(workplace)
    assert [m.done for m in packed(workplace, mine)] == [True, True]
    assert work_off(workplace) == away.OK
    assert [m.done for m in collected(workplace, "job-result")] == [True, True]
    assert collected(workplace, "job-result")[1].words == "are here already"
    with monkeypatch.context() as patch:
        trained = counting(patch)
        assert run_all(workplace, mine)[0].ok
        assert trained == []
    check_whole(workplace, cells=1)
    theirs = rows(workplace)
    assert {row["status"] for row in theirs} == {"ok"}
    assert all(row["reference"] is not None for row in theirs)
    (evidence,) = (workplace / "bench/evidence").glob("*.json")
    phases = json.loads(evidence.read_text())["phases"]
    there = Classified.read(next(workplace.folder.glob("job/cells/*/run/classified/*.json")))
    assert phases["classify"]["seconds"] == there.seconds > 0
    assert phases["classify"]["hardware"]["device"] == "cpu"
    assert phases["classify"]["versions"]["torch"]

    asked = ask(read_store(workplace / "bench/evidence"), "SELECT phase FROM phases")
    assert sorted(phase for (phase,) in asked.rows) == ["classify", "evaluate", "fit", "sample"]

    forget_evaluations(workplace)
    trained = counting(monkeypatch)
    assert run_all(workplace, mine)[0].ok
    assert len(trained) == 4
    assert rows(workplace) == theirs, "the same seeds on the same kind of machine"
    (evidence,) = (workplace / "bench/evidence").glob("*.json")
    assert "classify" not in json.loads(evidence.read_text())["phases"]


def forget_evaluations(place: Workplace) -> None:
    """As if nothing had been evaluated, nor come home for it."""
    for path in (*place.folder.glob("bench/cells/*/evaluated"), place / "bench/references"):
        shutil.rmtree(path)
    shutil.rmtree(place / "bench/evidence")


def test_it_runs_where_only_torch_is(workplace: Workplace) -> None:
    packed(workplace, measured_cell(workplace))
    words = [sys.executable, "-m", "tests.bench.away.bare_away", str(workplace / "job")]
    done = subprocess.run(
        [*words, "--phases", PHASES],
        cwd=workplace.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [m.done for m in collected(workplace, "job")] == [True, True]


def test_cut_off_it_goes_on_there_after_what_is_finished(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(workplace, measured_cell(workplace))
    with monkeypatch.context() as patch:
        first = counting(patch, stop_at=2)
        assert work_off(workplace) == away.UNFINISHED
    (path,) = workplace.folder.glob("job/cells/*/run/classified/*.json")
    half = Classified.read(path)
    assert (len(first), half.done) == (2, False)
    assert {f.classifier for f in half.figures} == {"mlp"}
    second = counting(monkeypatch)
    assert work_off(workplace) == away.OK
    whole = Classified.read(path)
    assert whole.done
    assert whole.figures[: len(half.figures)] == half.figures
    assert whole.seconds > half.seconds
    assert sorted({*first, *second}) == sorted([*first, *second]), "nothing was trained twice"
    third = counting(monkeypatch)
    assert work_off(workplace) == away.OK
    assert third == []


def test_what_came_home_unfinished_can_be_packed_again_without_its_fit(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = measured_cell(workplace)
    packed(workplace, mine)
    with monkeypatch.context() as patch:
        counting(patch, stop_at=2)
        assert work_off(workplace) == away.UNFINISHED
    moved = collected(workplace, "job-result")
    assert "not all of them" in moved[1].words
    assert [m.done for m in packed(workplace, mine, job="again")] == [False, True]
    assert not list((workplace / "again").rglob("job.json")), "the plan is not sent twice"
    trained = counting(monkeypatch)
    assert work_off(workplace, "classify", job="again") == away.OK
    # The reference of the first came along as a figure; its network is needed for real2gen.
    assert [name for name in trained if name.startswith("mlp of")] == ["mlp of real"]
    assert [m.done for m in collected(workplace, "again-result")] == [True]
    trained.clear()
    assert run_all(workplace, mine)[0].ok
    assert trained == []
    assert packed(workplace, mine, job="third")[1].words == "are evaluated already"


def test_a_job_without_samples_waits_for_them(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    packed(workplace, measured_cell(workplace))
    assert work_off(workplace, "fit,classify") == away.OK
    assert "is not sampled yet" in capsys.readouterr().out
    assert not list((workplace / "job").rglob("classified"))
    other = measured_cell(workplace, samples=20)
    words = packed(workplace, other)[1].words
    assert words.startswith("have nothing to learn from"), "the job makes another number"


def changed(path: Path, **changes: Any) -> None:
    found = Classified.read(path)
    replace(found, binding=replace(found.binding, **changes)).write(path)


def test_figures_of_something_else_are_refused(workplace: Workplace) -> None:
    mine = measured_cell(workplace)
    packed(workplace, mine)
    assert work_off(workplace) == away.OK
    collected(workplace, "job")
    (path,) = workplace.folder.glob("bench/cells/*/evaluated/*/figures.json")
    whole = path.read_bytes()
    for field, words in (
        ("protocol", "another protocol"),
        ("train", "other real training records"),
        ("test", "other test records"),
        ("version", "another version of the evaluation"),
    ):
        path.write_bytes(whole)
        changed(path, **{field: 2 if field == "version" else "0" * 64})
        assert not run_all(workplace, mine, retry_failed=True)[0].ok
        failure = sorted(workplace.folder.glob("bench/cells/*/failures/*.json"))[-1]
        said = json.loads(failure.read_text())["words"]
        assert f"holds figures of classifiers for {words}; remove it" in said
    path.unlink()
    assert run_all(workplace, mine, retry_failed=True)[0].ok


def test_figures_of_other_samples_and_of_other_workspaces_do_not_come_home(
    workplace: Workplace,
) -> None:
    packed(workplace, measured_cell(workplace))
    assert work_off(workplace) == away.OK
    (path,) = workplace.folder.glob("job/cells/*/run/classified/*.json")
    whole = path.read_bytes()
    changed(path, synthetic="0" * 64)
    with pytest.raises(UserError, match="learned from other samples"):
        collected(workplace, "job")
    replace(Classified.read(path), key="0" * 64).write(path)
    with pytest.raises(UserError, match="not of this workspace"):
        collected(workplace, "job")
    path.write_bytes(whole[:-20])
    with pytest.raises(UserError, match="damaged"):
        collected(workplace, "job")
    path.write_bytes(whole)
    assert collected(workplace, "job")[1].done


def test_the_reference_is_trained_once_for_two_cells(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away and at home; and what one place knows the other need not train."""
    cells = [measured_cell(workplace, epsilon=epsilon) for epsilon in (1.0, 2.0)]
    trained = counting(monkeypatch)
    assert run_all(workplace, *cells)[0].ok
    each = ["mlp of synthetic", "mlp-100 of synthetic"]
    once = ["mlp of real", "mlp-100 of real"]
    assert sorted(trained) == sorted([*each, *each, *once])
    trained.clear()
    elsewhere = [measured_cell(workplace, epsilon=epsilon) for epsilon in (3.0, 4.0)]
    packed(workplace, *elsewhere)
    assert work_off(workplace) == away.OK
    # Figures travel, networks do not: one training of each serves real2gen of both cells.
    assert sorted(trained) == sorted([*each, *each, *once])
    trained.clear()
    only = two_classifiers(workplace, metrics=["gen2real"])
    packed(workplace, *(replace(one, epsilon=5.0, protocol=only) for one in cells[:1]), job="third")
    assert work_off(workplace, job="third") == away.OK
    assert sorted(trained) == each, "the reference came along"


def test_training_records_stay_where_only_their_known_reference_is_needed(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sampled here and measured by gen2real alone needs samples and test records."""
    only = two_classifiers(workplace, metrics=["gen2real"])
    first, second = (measured_cell(workplace, epsilon=e, protocol=only) for e in (1.0, 2.0))
    packed(workplace, first, second)
    assert work_off(workplace, "fit,sample") == away.OK
    collected(workplace, "job")
    packed(workplace, first, job="first")
    assert jobs_of(workplace, "first").records.keys() == {"train", "test", "synthetic"}
    assert work_off(workplace, "classify", job="first") == away.OK
    assert collected(workplace, "first-result")[0].done
    packed(workplace, second, job="second")
    assert jobs_of(workplace, "second").records.keys() == {"test", "synthetic"}
    trained = counting(monkeypatch)
    assert work_off(workplace, "classify", job="second") == away.OK
    assert sorted(trained) == ["mlp of synthetic", "mlp-100 of synthetic"]
    assert collected(workplace, "second-result")[0].done
    trained.clear()
    assert run_all(workplace, first, second)[0].ok
    assert trained == []
    found = [
        row["reference"]
        for path in workplace.folder.glob("bench/cells/*/evaluated/*/metrics.json")
        for row in json.loads(path.read_text())["rows"]
    ]
    assert len(found) == 12
    assert None not in found
    assert len(set(found)) < 7, "both have the same references"


def jobs_of(place: Workplace, job: str) -> ClassifyJob:
    (path,) = (place / job).glob("cells/*/classify-*.json")
    return ClassifyJob.read(path)


def test_test_records_travel_only_where_they_are_asked_for(workplace: Workplace) -> None:
    mine = measured_cell(workplace)
    workspace = Workspace(workplace / "bench")
    pack([mine], workspace, workplace / "job", workplace.home, Silent())
    assert len(list((workplace / "job/pieces").iterdir())) == 1
    (moved,) = pack_evaluations([mine], workspace, workplace / "job", workplace.home, Silent())
    assert moved.done
    (path,) = workplace.folder.glob("job/cells/*/classify-*.json")
    job = ClassifyJob.read(path)
    assert path.stat().st_mode & 0o777 == 0o600, "it is the owner's"
    assert set(job.records) == {"train", "test"}
    assert len(list((workplace / "job/pieces").iterdir())) == 2, "the fit's are shared"


def test_a_protocol_without_classifiers_sends_nothing(workplace: Workplace) -> None:
    protocol = two_classifiers(workplace, metrics=["precision"], summaries=[])
    moved = packed(workplace, cell(workplace, protocol=protocol))
    assert [(m.done, m.words) for m in moved][1] == (False, "are not asked for by the protocol")
    assert not list((workplace / "job").rglob("classify-*.json"))


def test_the_command_packs_evaluations_too_and_says_how_to_go_on(workplace: Workplace) -> None:
    protocol = two_classifiers(workplace)
    settings = dict(word.split("=") for word in cell(workplace).settings)
    grid = {"method": "dp-merf", "dataset": "digits", "epsilon": 1, "protocol": protocol}
    numbers = {name: int(value) for name, value in settings.items()}
    text = yaml.safe_dump({"grid": {**grid, "limit": 60, "samples": 30, "settings": numbers}})
    (workplace / "small.yaml").write_text(text)
    said = workplace.run("bench", "pack", "small.yaml", "--classify", "-o", "job").succeeded().out
    assert "--phases fit,sample,classify" in said
    assert "packed   classifiers of digits" in said


def test_other_code_is_refused(workplace: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    packed(workplace, measured_cell(workplace))
    assert work_off(workplace, "fit,sample") == away.OK
    (path,) = workplace.folder.glob("job/cells/*/classify-*.json")
    path.write_text(path.read_text().replace(ClassifyJob.read(path).package, "0" * 64))
    PackedFiles.open(workplace / "job").add_document(path)  # as if it had been packed so
    assert work_off(workplace, "classify") == away.FAILED
    assert "is not that for which" in capsys.readouterr().out
