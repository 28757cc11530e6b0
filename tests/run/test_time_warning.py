"""A run that would take hours on a processor says so before it spends anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import drawing
from understudy.progress import Silent
from understudy.run.config import RunConfig
from understudy.run.synthesize import preview, time_warning


class Listening(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


@pytest.mark.parametrize(("steps", "warned"), [(2, False), (100_000, True)])
def test_hours_on_a_processor_are_said(tmp_path: Path, steps: int, warned: bool) -> None:
    drawing.class_folder(tmp_path / "photos", count=30, seed=0)
    changes = (f"steps={steps}", "batch=8", "multiplicity=8", "width=64")
    config = RunConfig(str(tmp_path / "photos"), "dpdm", 10.0, changes=changes, device="cpu")
    shown = Listening()
    found = preview(config, home=tmp_path / "home", progress=shown)
    told = [line for line in shown.said if "made for a GPU" in line]
    assert len(told) == warned
    assert (time_warning(found.prepared) is not None) == warned
