"""Where a run may write, and where it refuses to before anything is spent."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.run.reservation import check_not_taken, reserved

RUN = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1")


def nothing(place: Workplace) -> None:
    del place


def a_file(place: Workplace) -> None:
    (place / "file").write_text("in the way")


def an_out_folder(place: Workplace) -> None:
    (place / "out").mkdir()
    (place / "out/mine.txt").write_text("keep me")


def a_dangling_link(place: Workplace) -> None:
    (place / "out").symlink_to("nowhere")


def a_run_folder(place: Workplace) -> None:
    (place / "runs/out").mkdir(parents=True)


PLACES: dict[str, tuple[Callable[[Workplace], None], tuple[str, ...], tuple[str, ...]]] = {
    "the output folder exists": (an_out_folder, ("-o", "out"), ("out", "-o")),
    "the output folder is a link": (a_dangling_link, ("-o", "out"), ("out", "-o")),
    "the output folder is here": (nothing, ("-o", "."), ("-o",)),
    "the run folder exists": (a_run_folder, ("-o", "out"), ("runs/out", "--resume", "--name")),
    "the output is below a file": (a_file, ("-o", "file/out"), ("-o", "file/out")),
    "the runs are below a file": (a_file, ("-o", "out", "--runs", "file"), ("--runs", "file")),
    "the run would lie in the release": (nothing, ("-o", "out", "--runs", "out"), ("--runs",)),
    "run and release are one": (
        nothing,
        ("-o", "out", "--runs", ".", "--name", "out"),
        ("-o", "--runs"),
    ),
    "the release would lie in the run": (
        nothing,
        ("-o", "runs/x/out", "--name", "x"),
        ("-o", "--runs"),
    ),
    "the release would lie among the data": (nothing, ("-o", "photos/out"), ("-o", "photos")),
    "the run would lie among the data": (
        nothing,
        ("-o", "out", "--runs", "photos/runs"),
        ("--runs", "photos"),
    ),
    "the name is a path": (nothing, ("-o", "out", "--name", "../out"), ("--name", "../out")),
    "a name that is too long": (nothing, ("-o", "o" * 300), ("ooo",)),
}


@pytest.mark.parametrize("case", PLACES)
def test_refused_before_the_first_record(workplace: Workplace, case: str) -> None:
    prepare, words, named = PLACES[case]
    drawing.class_folder(workplace / "photos")
    prepare(workplace)
    before = workplace.tree()
    workplace.run(*RUN, *words).refused(*named)
    assert workplace.tree() == before
    assert workplace.book("enter") == []


@pytest.mark.parametrize("case", PLACES)
def test_a_dry_run_refuses_what_the_run_would(workplace: Workplace, case: str) -> None:
    prepare, words, named = PLACES[case]
    drawing.class_folder(workplace / "photos")
    prepare(workplace)
    before = workplace.tree()
    workplace.run(*RUN, *words, "--dry-run").refused(*named)
    assert workplace.tree() == before


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--sign", "nothing.pem"), ("nothing.pem",)),
        (("--title", " "), ("title",)),
        (("--title", "/home/me/scans"), ("/home/me/scans",)),
        (("--count", "2"), ("count of 2", "--count")),
        (("--device", "cuda:77"), ("cuda",)),
    ],
)
def test_a_dry_run_and_a_run_refuse_alike(
    workplace: Workplace, words: tuple[str, ...], named: tuple[str, ...]
) -> None:
    drawing.class_folder(workplace / "photos")
    errors = [
        workplace.run(*RUN, "-o", "out", *words, *more).refused(*named).err
        for more in (("--dry-run",), ())
    ]
    assert errors[0] == errors[1]
    assert workplace.book("enter") == []


def test_the_second_of_two_runs_into_one_place_is_refused_before_it_spends(
    workplace: Workplace,
) -> None:
    """The first was stopped in the middle: its release is still to come."""
    drawing.class_folder(workplace / "photos")
    run_ = (*RUN, "-o", "out", "--name")
    workplace.run(*run_, "first").succeeded()
    shutil.rmtree(workplace / "out")
    (workplace / "runs/first/release.json").unlink()
    with reserved(workplace / "out", workplace / "runs/first", workplace.home):
        pass  # as if the first had been stopped while it fitted
    assert len(workplace.book("enter")) == 1
    for more in ((), ("--dry-run",)):
        workplace.run(*run_, "second", *more).refused("runs/first", "--resume", "-o")
    assert len(workplace.book("enter")) == 1
    workplace.run(*run_, "first", "--resume").succeeded()
    assert not list((workplace.home / "places").glob("*.json"))
    shutil.rmtree(workplace / "out")
    workplace.run(*run_, "second").succeeded()


def test_a_place_whose_run_is_gone_is_free(workplace: Workplace) -> None:
    with reserved(workplace / "out", workplace / "runs/first", workplace.home):
        pass
    check_not_taken(workplace / "out", workplace / "runs/second", workplace.home)


def test_a_book_that_cannot_be_kept_stops_the_run(workplace: Workplace) -> None:
    """Without an entry in the account book nothing may be done to records (rule 8)."""
    drawing.class_folder(workplace / "photos")
    (workplace / "file").write_text("in the way")
    before = workplace.tree()
    for data in ("photos", "digits"):  # split by a key of the book, and split as published
        said = workplace.run("synthesize", data, *RUN[2:], "-o", "out", "--home", "file")
        said.refused("file", "UNDERSTUDY_HOME")
        assert workplace.tree() == before


def test_resume_repeats_the_options_of_its_run(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    workplace.run(*RUN, "-o", "out").succeeded()
    said = workplace.run(*RUN, "-o", "out", "--resume", "--epsilon", "2", "--seed", "3")
    said.refused("--resume", "--epsilon, --seed", "runs/out/config.yaml")


def test_resume_refuses_data_that_changed_under_it(workplace: Workplace) -> None:
    """The plan was made for the count of then; the rate and the denominator hang on it."""
    drawing.class_folder(workplace / "photos", count=40)
    workplace.run(*RUN, "-o", "out").succeeded()
    drawing.class_folder(workplace / "photos", count=50)
    workplace.run(*RUN, "-o", "out", "--resume").refused("runs/out", "count")


def test_resume_where_nothing_began_is_refused(workplace: Workplace) -> None:
    """A mistyped name would spend a second budget."""
    drawing.class_folder(workplace / "photos")
    workplace.run(*RUN, "-o", "out").succeeded()
    before = workplace.tree()
    said = workplace.run(*RUN, "-o", "ouT", "--resume")
    said.refused("there is no run at runs/ouT", "leave --resume out", "--name")
    assert workplace.tree() == before
    assert len(workplace.book("enter")) == 1


def test_resume_does_not_take_another_folder_for_a_run(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    (workplace / "runs/out").mkdir(parents=True)
    workplace.run(*RUN, "-o", "out", "--resume").refused("runs/out", "not a run folder")
    (workplace / "other").mkdir()
    workplace.run(*RUN, "-o", "other", "--resume").refused("other", "-o")


def test_resume_does_not_take_another_release_for_its_own(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    workplace.run(*RUN, "-o", "one").succeeded()
    workplace.run(*RUN, "-o", "two").succeeded()
    said = workplace.run(*RUN, "-o", "one", "--name", "two", "--resume")
    said.refused("one", "not this run's release")
