"""Rules 2 and 10: what was computed from real records stays with its owner."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import understudy.run.evaluate
from tests import drawing
from tests.workplace import SMALL_GAN, SMALL_MERF, Workplace
from understudy.evaluation.metric import Evaluation, Row
from understudy.methods.contract import Context
from understudy.report import render
from understudy.report.model import OwnerData, ReportData
from understudy.run.context import RunContext

CANARIES = {"value": 0.73164, "low": 0.71359, "high": 0.75926, "reference": 0.98627}
LOSS = 3.14729

KEEPS_NOTHING = re.compile(r"\s+")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A released and evaluated DP-GAN run whose private figures are canaries."""
    place = Workplace(tmp_path_factory.mktemp("place"))
    drawing.class_folder(place / "canary-folder/photos", count=53)
    words = ("--set", "steps=5", "--epsilon", "1", "--count", "60", "-o", "out")
    place.run("synthesize", "canary-folder/photos", *SMALL_GAN, *words).succeeded()
    log = place / "runs/out/owner.jsonl"
    rows = [json.loads(line) | {"loss": LOSS} for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def evaluate(*arguments: Any, **named: Any) -> Evaluation:
        return Evaluation((canary_row(),), arguments[3], named["dataset"], 30)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(understudy.run.evaluate, "evaluate", evaluate)
        place.run("evaluate", "--run", "runs/out", "--protocol", "reduced").succeeded()
    return place


def canary_row() -> Row:
    return Row(
        metric="gen2real accuracy",
        variant="cnn",
        confidence=0.95,
        direction="higher",
        unit="share",
        bounds=(0.0, 1.0),
        seeds=(0,),
        chance=0.5,
        extractor=None,
        status="ok",
        reason=None,
        **CANARIES,
    )


def written(place: Workplace, folder: str) -> str:
    """Everything in a folder as text; tables are Parquet, so their bytes are looked at too."""
    files = sorted(p for p in (place / folder).rglob("*") if p.is_file())
    return "".join(p.read_bytes().decode("latin-1") for p in files)


def shown(place: Workplace, page: str) -> str:
    return KEEPS_NOTHING.sub(" ", (place / "runs/out" / page).read_text())


def spellings(value: float) -> list[str]:
    """How a page may write a figure: as it is, rounded, as a percentage."""
    return [f"{value:.5f}", f"{value:.4f}", f"{value:.3f}", f"{100 * value:.2f}"]


def test_the_owners_report_shows_the_figures(finished: Workplace) -> None:
    """The other side: the canaries are where the owner looks."""
    page = shown(finished, "report.html")
    for value in CANARIES.values():
        assert any(text in page for text in spellings(value)), value
    assert "training records" in page
    assert "loss" in page


def check_kept_from_others(place: Workplace, value: float) -> None:
    release, page = written(place, "out"), shown(place, "report-public.html")
    for text in spellings(value):
        assert text not in release, "in the release"
        assert text not in page, "in the public report"


@pytest.mark.parametrize("value", [*CANARIES.values(), LOSS])
def test_no_figure_reaches_release_or_public_report(finished: Workplace, value: float) -> None:
    check_kept_from_others(finished, value)


def copy_of(place: Workplace, folder: Path) -> Workplace:
    shutil.copytree(place.folder, folder / "copy")
    return Workplace(folder / "copy")


def test_planted_fault_figures_in_the_release(finished: Workplace, tmp_path: Path) -> None:
    place = copy_of(finished, tmp_path)
    shutil.copy(place / "runs/out/metrics.json", place / "out/metrics.json")
    with pytest.raises(AssertionError, match="in the release"):
        check_kept_from_others(place, CANARIES["value"])


def test_planted_fault_the_owners_page_as_the_public_one(
    finished: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copy_of(finished, tmp_path)
    evaluation = Evaluation.read(place / "runs/out/metrics.json")
    real = render._page
    claim = json.loads((place / "runs/out/claim.json").read_text())
    measured = OwnerData(metrics=evaluation.to_json())
    owners: dict[str, Any] = dict(render._owner_context(ReportData("x", claim), measured))
    monkeypatch.setattr(
        render, "_page", lambda _, context: real("owner.html.j2", {**owners, **context})
    )
    render.write_reports(place / "runs/out", ReportData("x", claim), OwnerData())
    with pytest.raises(AssertionError, match="in the public report"):
        check_kept_from_others(place, CANARIES["value"])


def test_no_name_of_the_owners_reaches_release_or_public_report(finished: Workplace) -> None:
    secrets = [
        "canary-folder",
        str(finished.folder),
        "gen2real",
        "owner.jsonl",
        "53",
        finished.book("split-key")[0]["fingerprint"],
        *(p.read_text() for p in finished.home.rglob("*.split-key")),
    ]
    page = shown(finished, "report-public.html")
    text = re.sub(r'data:[^"\')]+', "", page)  # pictures are base64 and may spell anything
    claim = "".join(
        (finished / "out" / name).read_text()
        for name in ("claim.json", "README.md", "croissant.json", "ledger.jsonl")
    )
    for secret in secrets:
        if secret == "53":  # the realised count; as a word of its own
            assert not re.search(r"(?<![\w.])53(?![\w.])", claim)
            continue
        assert secret not in text, secret
        assert secret not in written(finished, "out"), secret


def test_a_release_holds_only_what_a_release_holds(finished: Workplace) -> None:
    assert sorted(p.name for p in (finished / "out").iterdir()) == [
        *("README.md", "claim.json", "contact-sheet.png", "croissant.json"),
        *("data", "ledger.jsonl", "manifest.sha256"),
    ]


def test_the_released_ledger_holds_no_times_and_no_realised_figure(finished: Workplace) -> None:
    for line in (finished / "out/ledger.jsonl").read_text().splitlines()[1:]:
        body = json.loads(line)["body"]
        assert set(body) <= {"block", "mechanism", "uses"}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_only_the_owner_can_read_run_folder_and_books(finished: Workplace) -> None:
    assert mode(finished / "runs/out") == 0o700
    assert mode(finished / "runs/out/owner.jsonl") == 0o600
    assert mode(finished.home / "books") == 0o700
    for path in (finished.home / "books").iterdir():
        assert mode(path) == 0o600, path.name


def test_methods_get_no_path_to_the_owners_log() -> None:
    """What a run lends to a method is what the contract names, and no door or log."""
    lent = {*vars(RunContext), *RunContext.__dataclass_fields__}
    promised = {name for name in vars(Context) if not name.startswith("_")}
    assert {name for name in lent if not name.startswith("_")} == promised


def test_an_insecure_run_is_refused_and_its_samples_are_not_shared(workplace: Workplace) -> None:
    """`--insecure-noise-seed`: no release, the reason in words, no pictures to pass on."""
    drawing.class_folder(workplace / "photos")
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "out")
    said = workplace.run(*words, "--insecure-noise-seed", "7").succeeded()
    assert "may not be released: its noise came from an insecure seed" in said.out
    assert "Differentially private" not in said.out
    assert not (workplace / "out").exists()
    assert workplace.book("release") == []
    page = shown(workplace, "report-public.html")
    assert "data:image" not in page
    assert "do not protect anybody" in page
    told = workplace.run(*words, "--insecure-noise-seed", "7", "--resume", "--json").json()
    assert told["release"] is None
    assert told["digest"] is None
    assert told["refusals"]


def test_a_released_run_shows_its_pictures(finished: Workplace) -> None:
    assert "data:image" in shown(finished, "report-public.html")


def test_evaluating_changes_neither_release_nor_public_claim(finished: Workplace) -> None:
    """A run made later is no run made earlier: the claim is the one that was released."""
    words = ("synthesize", "canary-folder/photos", *SMALL_MERF, "--epsilon", "1", "-o", "later")
    finished.run(*words).succeeded()
    before = shown(finished, "report-public.html")
    protocol = finished.quick_protocol()
    finished.run("evaluate", "--run", "runs/out", "--protocol", protocol).succeeded()
    assert shown(finished, "report-public.html") == before
