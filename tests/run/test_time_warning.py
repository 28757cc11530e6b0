"""A run that would take hours says so before it spends anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests import drawing
from understudy.progress import Silent
from understudy.run import synthesize
from understudy.run.config import RunConfig
from understudy.run.synthesize import preview, time_warning


class Listening(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


TINY = ("features=40", "width=16", "latent=4", "batch=20")
MEND = "--time 10m, without --preset and --set, takes settings that fit."


def photos(folder: Path, *changes: str, device_kind: str | None = None) -> RunConfig:
    drawing.class_folder(folder / "photos", count=30, seed=0)
    source, words = str(folder / "photos"), (*TINY, *changes)
    settings = {"changes": words, "preset": "default", "device": "cpu", "device_kind": device_kind}
    return RunConfig(source, "dp-merf", 10.0, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("steps", "warned"), [(2, False), (100_000_000, True)])
@pytest.mark.parametrize(("kind", "mend"), [(None, MEND), ("h200", "they are for an H200")])
def test_hours_are_said(
    tmp_path: Path, steps: int, warned: bool, kind: str | None, mend: str
) -> None:
    """Of the machine at hand, whichever one settings are for."""
    shown = Listening()
    config = photos(tmp_path, f"steps={steps}", device_kind=kind)
    preview(config, home=tmp_path / "home", progress=shown)
    told = [line for line in shown.said if "hours here;" in line]
    assert len(told) == warned
    assert all(mend in line for line in told)


def test_two_hours_are_the_first_that_are_said(tmp_path: Path) -> None:
    prepared = preview(photos(tmp_path, "steps=2"), home=tmp_path / "home").prepared
    assert time_warning(prepared, None) is None, "nobody can tell"
    assert time_warning(prepared, 2 * 3600 - 1) is None
    assert "about 2 hours here" in (time_warning(prepared, 2 * 3600) or "")


def test_a_shorter_time_is_offered_only_where_it_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = preview(photos(tmp_path, "steps=2"), home=tmp_path / "home").prepared
    assert MEND in (time_warning(prepared, 1e6) or "")
    by_rule = replace(prepared, config=replace(prepared.config, preset=None, changes=()))
    assert MEND not in (time_warning(by_rule, 1e6) or "")
    monkeypatch.setattr(synthesize, "find_rule", lambda *_: None)
    assert MEND not in (time_warning(prepared, 1e6) or MEND)
