"""The formats page lists what the files hold: no field missing, none made up."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import understudy
from tests.docs.pages import REPOSITORY
from understudy.evaluation.metric import Row
from understudy.privacy.ledger import story
from understudy.privacy.plan.mechanisms import mechanism_class, mechanism_kinds
from understudy.report.words import guess_ceiling, percent_up
from understudy.run.synthesize import RunResult

FORMATS = (REPOSITORY / "docs" / "formats.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    found = re.split(r"^## ", FORMATS, flags=re.MULTILINE)
    return next(text for text in found if text.startswith(f"{heading}\n"))


def first_column(text: str) -> set[str]:
    """Everything between backticks in the first column of the tables in a section."""
    cells = re.findall(r"^\| (`.+?) \|", text, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """The smallest run, with everything that a run leaves behind."""
    folder = tmp_path_factory.mktemp("formats")
    key, public = folder / "key", folder / "public"
    from understudy.release.signing import make_keys

    make_keys(key, public)
    return understudy.synthesize(
        understudy.RunConfig(
            source="digits",
            method="dp-gan",
            epsilon=10.0,
            time=None,
            changes=("steps=2", "batch=8", "width=4", "discriminator_width=4", "latent=2"),
            samples=20,
        ),
        folder / "release",
        run_folder=folder / "run",
        signing_key=key,
        home=folder / "home",
    )


def test_every_field_of_a_claim_is_listed(run: RunResult) -> None:
    assert first_column(section("Claim")) == set(run.claim.to_json())


def test_every_field_of_a_metrics_row_is_listed() -> None:
    assert first_column(section("Metrics")) == {field.name for field in fields(Row)}


def test_every_kind_of_line_and_of_mechanism_is_listed() -> None:
    listed = first_column(section("Ledger"))
    assert listed == {"kind", "plan", *story._BODIES, *mechanism_kinds()}
    for kind in mechanism_kinds():
        (row,) = re.findall(rf"^\| `{kind}` \| (.+?) \|", FORMATS, flags=re.MULTILINE)
        numbers = {field.name for field in fields(mechanism_class(kind))} - {"name", "part"}
        assert set(re.findall(r"`(\w+)`", row)) == numbers, kind


def test_every_file_of_a_release_is_listed(run: RunResult) -> None:
    assert run.release is not None
    found = {p.relative_to(run.release).as_posix() for p in run.release.rglob("*") if p.is_file()}
    assert found == first_column(section("Release"))


def test_every_file_of_a_run_folder_is_listed(run: RunResult) -> None:
    listed = {name.split("/")[0] for name in first_column(section("Run folder"))}
    found = {path.name for path in Path(run.run).iterdir()} - {".lock"}
    assert found <= listed
    assert listed - found == {"metrics.json"}, "comes with evaluation only"


def test_the_guide_s_table_of_guesses_is_right() -> None:
    guide = (REPOSITORY / "docs" / "guide.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+%) \|$", guide, flags=re.MULTILINE)
    assert [epsilon for epsilon, _ in rows] == ["0.1", "1", "3", "10"]
    for epsilon, shown in rows:
        assert percent_up(guess_ceiling(float(epsilon), 1e-5)) == shown
