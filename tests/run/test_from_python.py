"""The same as Python functions: what a notebook does."""

from __future__ import annotations

from pathlib import Path

import pytest

import understudy
from tests import drawing
from tests.workplace import SMALL_MERF

CHANGES = tuple(word for word in SMALL_MERF if "=" in word)


def config(source: Path | str, **more: object) -> understudy.RunConfig:
    settings = {"method": "dp-merf", "epsilon": 1.0, "changes": CHANGES, "samples": 20}
    return understudy.RunConfig(str(source), time=None, **settings | more)  # type: ignore[arg-type]


def test_the_main_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    photos = drawing.class_folder(tmp_path / "photos")
    seen = understudy.preview(config(photos))
    result = understudy.synthesize(config(photos), "out")
    assert result.claim.epsilon == pytest.approx(seen.plan.epsilon)
    assert result.release == Path("out")
    assert understudy.verify(Path("out"), digest=result.digest).authenticated
    records, claim = understudy.load_release(Path("out"))
    assert len(records) == claim.records.count == 20
    total = understudy.spent(str(photos))
    assert total.released.epsilon == pytest.approx(result.claim.epsilon)


def test_errors_are_errors_and_not_exits(tmp_path: Path) -> None:
    with pytest.raises(understudy.UserError, match="epsilon"):
        config("digits", epsilon=0.0)
    with pytest.raises(understudy.UserError, match="digitz"):
        understudy.synthesize(config("digitz"), tmp_path / "out", run_folder=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_two_processes_cannot_work_in_one_run(tmp_path: Path) -> None:
    """The lock is the run folder's, so a second start waits for nobody and spoils nothing."""
    from understudy.privacy.ledger.journal import Journal

    photos = drawing.class_folder(tmp_path / "photos")
    out, run = tmp_path / "out", tmp_path / "run"
    understudy.synthesize(config(photos), out, run_folder=run)
    held = Journal.open(run)
    with pytest.raises(understudy.UserError, match="another process"):
        understudy.synthesize(config(photos), out, run_folder=run, resume=True)
    held.release_lock()
    again = understudy.synthesize(config(photos), out, run_folder=run, resume=True)
    assert again.digest == understudy.verify(out).digest
