"""Damaged files of a run: each is named in one sentence, and a cut-off book is warned of."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import yaml

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.errors import UserError, reading
from understudy.run.config import read_config
from understudy.run.folder import RunFolder

RUN = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "--dataset", "mine", "-o", "out")


def test_what_a_reader_raises_becomes_a_sentence_about_the_file() -> None:
    with pytest.raises(UserError, match=r"x.json is damaged \('digest'\); restore it"):  # noqa: SIM117
        with reading(Path("x.json")):
            raise KeyError("digest")
    with pytest.raises(UserError, match=r"x.json is missing"):  # noqa: SIM117
        with reading(Path("x.json")):
            raise FileNotFoundError
    with pytest.raises(UserError, match="already a sentence"):  # noqa: SIM117
        with reading(Path("x.json")):
            raise UserError("already a sentence.")
    with pytest.raises(UserError, match=r"x\.json is damaged"):  # noqa: SIM117
        with reading(Path("x.json")):
            raise OSError(errno.EINVAL, "Invalid argument")
    with pytest.raises(OSError, match="No space"):  # noqa: SIM117
        with reading(Path("x.json")):
            raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(KeyboardInterrupt):  # noqa: SIM117
        with reading(Path("x.json")):
            raise KeyboardInterrupt


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "-1", '"soon"'])
def test_a_time_that_is_none_is_the_files_damage(tmp_path: Path, seconds: str) -> None:
    (tmp_path / "times.json").write_text('{"fit": 2.5}')
    assert RunFolder(tmp_path).times() == {"fit": 2.5}
    (tmp_path / "times.json").write_text(f'{{"fit": {seconds}}}')
    with pytest.raises(UserError, match=r"times\.json is damaged"):
        RunFolder(tmp_path).times()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(tmp_path_factory.mktemp("place"))
    drawing.class_folder(place / "photos", count=30)
    place.run(*RUN).succeeded()
    return place


@pytest.mark.parametrize(
    "name", ["plan.json", "samples/schema.json", "samples/samples.npz", "config.yaml"]
)
def test_a_damaged_file_of_a_run_is_named(finished: Workplace, name: str) -> None:
    path = finished / "runs/out" / name
    whole = path.read_bytes()
    words = ("evaluate", "--run", "runs/out", "--protocol", finished.quick_protocol())
    try:
        path.write_bytes(whole[: len(whole) // 2] + b"\xff")
        finished.run(*words).refused(name)
    finally:
        path.write_bytes(whole)
    finished.run(*words).succeeded()


@pytest.mark.parametrize(
    "line",
    [
        *("epsilon: much", "seed: [1]", "changes: [1]", "selection_covered: 1", "samples: true"),
        *(f"delta: {10**400}", f"epsilon: {10**400}"),
    ],
    ids=lambda line: line[:20],
)
def test_a_setting_of_another_type_is_named(finished: Workplace, tmp_path: Path, line: str) -> None:
    key = line.partition(":")[0]
    text = (finished / "runs/out/config.yaml").read_text()
    kept = {name: value for name, value in yaml.safe_load(text).items() if name != key}
    (tmp_path / "config.yaml").write_text(f"{yaml.safe_dump(kept)}{line}\n")
    with pytest.raises(UserError, match=f"{key} cannot be"):
        read_config(tmp_path)
    (tmp_path / "config.yaml").write_text(text)
    assert read_config(tmp_path).source == "photos"


def test_a_run_that_was_begun_before_settings_were_fitted_reads(
    finished: Workplace, tmp_path: Path
) -> None:
    """Version 0.1 wrote none of these, and took presets alone."""
    whole = yaml.safe_load((finished / "runs/out/config.yaml").read_text())
    newer = ("time", "device_kind", "fitted", "fitted_on")
    older = {name: value for name, value in whole.items() if name not in newer}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(older))
    config = read_config(tmp_path)
    assert (config.time, config.device_kind, config.fitted, config.fitted_on) == (
        None,
        None,
        (),
        None,
    )
    assert config.is_settled


def test_a_book_that_ends_in_the_middle_of_a_line_is_warned_of(finished: Workplace) -> None:
    assert finished.run("spent", "mine").succeeded().err == ""
    (book,) = (finished.home / "books").glob("mine*.jsonl")
    whole = book.read_bytes()
    try:
        book.write_bytes(whole[: whole.index(b'"kind":"release"') + 20])
        said = finished.run("spent", "mine", "--json").succeeded()
        assert "ends in the middle of a line" in said.err
        assert said.json()["released"] == 0
    finally:
        book.write_bytes(whole)
