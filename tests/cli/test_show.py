"""`understudy show` and what notebooks draw: pictures of synthetic records, and short words."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from PIL import Image

import understudy
from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.cli.half_blocks import in_blocks
from understudy.cli.main import run
from understudy.data.contact_sheet import sheet_of
from understudy.privacy.accounting.accountants import Cost
from understudy.run.composed import Composed
from understudy.run.folder import RunFolder
from understudy.run.listing import Listing
from understudy.run.synthesize import RunResult


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


COMPOSED = Composed("one", 1e-5, 1, Cost(0.0, "none"), Cost(1.0, "PLD"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    found = Workplace(tmp_path_factory.mktemp("show"))
    drawing.class_folder(found / "photos", 30)
    for name in ("one", "two"):
        words = ("--epsilon", "1", "-o", name)
        found.run("synthesize", "photos", *SMALL_MERF, *words).succeeded()
    return found


def test_releases_stand_side_by_side_in_a_png(place: Workplace) -> None:
    said = place.run("show", "one", "two", "-o", "grid.png").succeeded().out
    assert "grid.png" in said
    pixels = np.asarray(Image.open(place / "grid.png"))
    sheet = sheet_of(understudy.load_release(place / "one")[0])
    assert pixels.shape[1] == 2 * (sheet.shape[2] + 8)
    own = pixels[13 : 13 + sheet.shape[1], : sheet.shape[2]]
    assert (np.atleast_3d(own).transpose(2, 0, 1) == sheet).all()
    place.run("show", "one", "-o", "grid.png").refused("grid.png", "exists")
    place.run("show", "one", "-o", "grid.jpg").refused(".png")
    place.run("show", "one", "-o", "none/grid.png").refused("no folder")
    place.run("show", "nothing", "-o", "other.png").refused("nothing")


def test_a_run_folder_shows_its_samples(place: Workplace) -> None:
    shown = understudy.show(place / "runs/one")
    assert (
        shown.pixels[:, 13:, :-8] == sheet_of(RunFolder(place / "runs/one").load_samples())
    ).all()


def test_a_terminal_gets_half_blocks_of_its_width(place: Workplace) -> None:
    screen = Terminal()
    environment = {"COLUMNS": "70", "LINES": "30"}
    with (
        contextlib.chdir(place.folder),
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(screen),
    ):
        os.environ.pop("NO_COLOR", None)
        assert run(["show", "one", "two"]) == 0
    lines = screen.getvalue().splitlines()
    assert lines[0].split() == ["one", "two"]
    assert all(name in lines for name in ("cross", "round"))
    shown = understudy.show(place / "one", place / "two")
    assert max(line.count("\N{UPPER HALF BLOCK}") for line in lines) <= 70
    assert lines == in_blocks(shown.sheets, 70)


def test_without_a_terminal_or_colours_a_file_is_asked_for(place: Workplace) -> None:
    place.run("show", "one").refused("-o FILE.png")
    screen = Terminal()
    with mock.patch.dict(os.environ, {"NO_COLOR": "1"}), contextlib.redirect_stdout(screen):
        assert run(["show", str(place / "one")]) == 2
    assert screen.getvalue() == ""


@pytest.mark.parametrize("columns", [20, 80, 300])
def test_lines_fit_any_terminal(place: Workplace, columns: int) -> None:
    for line in in_blocks(understudy.show(place / "one", place / "two").sheets, columns):
        assert line.count("\N{UPPER HALF BLOCK}") + line.count(" ") <= columns


def test_notebooks_draw_pictures_and_say_little(place: Workplace) -> None:
    records, claim = understudy.load_release(place / "one")
    report = Path("report.html")
    result = RunResult(claim, place / "runs/one", place / "one", "0" * 64, report, COMPOSED)
    verified = understudy.verify(place / "one")
    listing = Listing(("a", "b"), (("<1", "2"),))
    for thing in (records, claim, result, verified, listing, understudy.show(place / "one")):
        assert len(repr(thing)) < 250, thing
        assert "\n" not in repr(thing)
    assert repr(claim).startswith("Claim(central, epsilon ")
    assert "30 of 1x" in repr(records) or "30 of 3x" in repr(records)
    for drawn in (records, result, understudy.show(place / "one")):
        assert "data:image/png;base64," in drawn._repr_html_()
    assert "&lt;1" in listing._repr_html_()


def test_a_run_without_pictures_still_says_its_claim(place: Workplace, tmp_path: Path) -> None:
    claim = understudy.load_release(place / "one")[1]
    page = RunResult(claim, tmp_path, None, None, Path("report.html"), COMPOSED)._repr_html_()
    assert "<img" not in page
    assert "epsilon" in page
