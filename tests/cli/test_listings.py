"""The commands that only tell: methods, datasets, weights, spent, version, help, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import pytest

from tests import drawing
from tests.contract.toys.hidden_attribute import HiddenAttribute
from tests.run.public_method import TINTED
from tests.workplace import SMALL_MERF, Workplace
from understudy import __version__
from understudy.methods.config import resolve_config
from understudy.methods.registry import get_method, method_names
from understudy.run.choosing import candidates

RUN = ("synthesize", "digits", *SMALL_MERF, "--epsilon", "1")


def test_every_method_is_listed(workplace: Workplace) -> None:
    said = workplace.run("methods").succeeded().out
    rows = workplace.run("methods", "--json").json()["rows"]
    assert [row["method"] for row in rows] == list(method_names())
    for row in rows:
        assert row["method"] in said
        assert row["claim"] == "central"
        assert row["summary"]


def test_one_method_shows_its_settings(workplace: Workplace) -> None:
    said = workplace.run("methods", "dp-merf").succeeded().out
    assert "arXiv:2002.11603" in said
    assert "changed for soundness:" in said
    rows = workplace.run("methods", "dp-merf", "--json").json()["rows"]
    assert {"features", "steps", "learning_rate"} <= {row["setting"] for row in rows}
    assert all(row["meaning"] for row in rows)
    workplace.run("methods", "dp-merv").refused("dp-merv", "dp-merf")


def test_a_preset_shows_its_settings_and_a_run_uses_them(workplace: Workplace) -> None:
    words = ("methods", "dp-merf", "--preset", "Digits")
    rows = workplace.run(*words, "--json").json()["rows"]
    config = resolve_config(get_method("dp-merf"), preset="digits").config
    assert {row["setting"]: row["value"] for row in rows} == {
        name: str(value) for name, value in vars(config).items()
    }
    said = workplace.run(*words).succeeded().out
    assert "preset digits: tuned on mnist, whole" in said
    assert "Other presets (--preset NAME): default; mnist" in said
    workplace.run("methods", "dp-merf", "--preset", "digit").refused("digit", "did you mean digits")
    workplace.run("methods", "--preset", "digits").refused("NAME")
    drawing.class_folder(workplace / "photos", 30)
    run = ("synthesize", "photos", "--method", "dp-merf", "--epsilon", "1", "--dry-run")
    run = (*run, "--device-kind", "cpu")
    assert workplace.run(*run, "--json").json()["preset"] == "by rule"
    for name in ("default", "digits"):
        assert workplace.run(*run, "--json", "--preset", name).json()["preset"] == name
    workplace.run(*run, "--preset", "nonsense").refused("nonsense", "default")


def test_one_method_shows_its_public_inputs(workplace: Workplace) -> None:
    said = workplace.run("methods", "pdp-diffusion").succeeded().out
    assert "takes --public records=DATA (needed): " in said
    said = workplace.run("methods", TINTED).succeeded().out
    assert "takes --public scenes=DATA (not needed): images that are looked at" in said
    assert "takes --weights warm=FILE (needed): the tint of the first class" in said
    said = workplace.run("methods", f"{TINTED}ByDefault").succeeded().out
    assert "takes --weights warm=FILE (lenet-mnist unless another is named): " in said
    assert "takes --" not in workplace.run("methods", "dp-merf").succeeded().out


def test_one_method_shows_its_parts_what_it_hides_and_needs(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = "tests.contract.toys.hidden_attribute:HiddenAttribute"
    told = replace(HiddenAttribute.info, needs=("no-such-package",))
    monkeypatch.setattr(HiddenAttribute, "info", told)
    said = workplace.run("methods", toy).succeeded().out
    assert "divides the private records into: hidden 0.4, kept 0.6" in said
    assert "takes --hide A,B (needed) and --keep A,B: attributes to hide and to keep" in said
    assert "needs packages: no-such-package" in said


@pytest.mark.parametrize("hides", [True, False])
def test_advice_says_why_a_method_cannot_be_used(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, hides: bool
) -> None:
    told = replace(HiddenAttribute.info, hides=hides, needs=("no-such-package",))
    monkeypatch.setattr(HiddenAttribute, "info", told)
    toy = "tests.contract.toys.hidden_attribute:HiddenAttribute"
    monkeypatch.setattr(candidates, "method_names", lambda: (toy,))
    said = " ".join(workplace.run("methods", "--for", "digits").succeeded().out.split())
    reason = "needs --hide" if hides else "needs no-such-package"
    assert f"{toy} cannot be used as it is: " in said
    assert reason in said.partition(f"{toy} cannot be used")[2]


def test_the_default_that_is_listed_is_the_one_that_is_used(workplace: Workplace) -> None:
    """By the default preset, which may change what the code says."""
    found = workplace.run("methods", "dpdm", "--json").json()
    listed = {row["setting"]: row["default"] for row in found["rows"]}
    used = resolve_config(get_method("dpdm")).config
    assert listed == {name: str(getattr(used, name)) for name in listed}
    assert listed["batch"] != str(type(used)().batch)
    assert "mnist, epsilon 5 or more" in found["notes"][-1]


def test_advice_for_data_spends_and_writes_nothing(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    before = workplace.tree()
    said = workplace.run("methods", "--for", "photos").succeeded().out
    assert "1x8x8" in said
    assert "2 classes" in said
    assert all(name in said for name in method_names())
    assert "40 records" in said
    assert "34 to learn from" in said
    assert workplace.tree() == before
    assert workplace.book("enter") == []
    workplace.run("methods", "--for", "digitz").refused("digitz", "digits")
    workplace.run("methods", "dp-merf", "--for", "digits").refused("NAME", "--for")


def test_datasets_say_where_their_files_belong(workplace: Workplace) -> None:
    with mock.patch.dict(os.environ, {"UNDERSTUDY_DATA": "/some/where"}):
        said = workplace.run("datasets").succeeded().out
    assert "$UNDERSTUDY_DATA/<name>/" in said
    assert "/some/where" in said
    names = [row["dataset"] for row in workplace.run("datasets", "--json").json()["rows"]]
    assert {"digits", "portraits", "mnist", "fashion-mnist"} <= set(names)


def test_weights_say_what_they_are_and_whether_they_are_here(workplace: Workplace) -> None:
    with mock.patch.dict(os.environ, {"UNDERSTUDY_WEIGHTS": "/some/where"}):
        said = workplace.run("weights").succeeded().out
        rows = workplace.run("weights", "--json").json()["rows"]
    assert "/some/where" in said
    assert max(map(len, said.splitlines())) <= 80
    assert {row["name"] for row in rows} >= {"taef2", "lenet-mnist", "inception-2015-12-05"}
    for row in rows:
        assert row["sha256"] in said
        assert f"licence: {row['licence'] or 'unknown'}" in said
        assert not row["here"] or row["name"] not in ("taef2", "lenet-mnist")


def test_two_releases_compose(workplace: Workplace) -> None:
    """Rule 8: together they cost more than either, and less than the plain sum."""
    for name in ("one", "two"):
        workplace.run(*RUN, "-o", name).succeeded()
    total = workplace.run("spent", "digits", "--json").json()
    assert total["runs"] == 2
    assert total["released"] == total["all_runs"]
    assert 1.05 < total["released"] < 2.0
    said = workplace.run("spent", "digits").succeeded().out
    assert "Released: epsilon" in said
    assert "All runs, audits included: epsilon" in said


def test_a_run_that_is_not_released_counts_among_all_runs(workplace: Workplace) -> None:
    workplace.run(*RUN, "-o", "one").succeeded()
    workplace.run(*RUN, "-o", "two", "--insecure-noise-seed", "1").succeeded()
    total = workplace.run("spent", "digits", "--json").json()
    assert total["released"] < 1.0 < total["all_runs"]


def test_a_release_called_like_its_data_stays_in_the_same_book(workplace: Workplace) -> None:
    """`-o digits` makes a folder of that name: the catalog's digits are still meant."""
    for name in ("digits", "again"):
        workplace.run(*RUN, "-o", name).succeeded()
    assert workplace.run("spent", "digits", "--json").json()["runs"] == 2


def test_a_folder_is_one_dataset_however_it_is_written(workplace: Workplace) -> None:
    folder = drawing.class_folder(workplace / "photos")
    words = (*SMALL_MERF, "--epsilon", "1", "-o")
    workplace.run("synthesize", "photos", *words, "one").succeeded()
    workplace.run("synthesize", folder, *words, "two").succeeded()
    workplace.run("synthesize", "./photos/../photos", *words, "three").succeeded()
    assert workplace.run("spent", "photos", "--json").json()["runs"] == 3


def test_the_owners_name_for_data_joins_its_copies(workplace: Workplace) -> None:
    for name in ("first", "second"):
        drawing.class_folder(workplace / name)
        words = ("synthesize", name, *SMALL_MERF, "--epsilon", "1", "--dataset", "ward 3")
        workplace.run(*words, "-o", f"out-{name}").succeeded()
    assert workplace.run("spent", "ward 3", "--json").json()["runs"] == 2
    assert workplace.run("spent", "first", "--json").json()["runs"] == 0


def test_nothing_spent_is_said_to_be_no_run(workplace: Workplace) -> None:
    said = workplace.run("spent", "digitz").succeeded().out
    assert "No run on 'digitz' is in the book" in said
    for delta in ("0", "1", "nan", "-1"):
        workplace.run("spent", "digits", "--delta", delta).refused("--delta")


def test_version(workplace: Workplace) -> None:
    assert workplace.run("--version").succeeded().out == f"understudy {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("synthesize",),
        ("synthesise", "digits"),
        ("synthesize", "digits", "--method", "dp-merf", "--epsilon", "much"),
        ("synthesize", "digits", "--method", "dp-merf", "--epsilom", "1"),
        ("verify",),
        ("spent", "a", "b"),
    ],
)
def test_a_wrong_word_is_answered_in_one_sentence(
    workplace: Workplace, words: tuple[str, ...]
) -> None:
    workplace.run(*words).refused("--help")


def test_data_alone_are_not_enough(workplace: Workplace) -> None:
    """A method is recommended, a budget never: without one, a method might be taken that claims
    nothing."""
    workplace.run("synthesize", "digits").refused("--epsilon", "--method")
    assert workplace.tree() == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    environment = os.environ | {"_UNDERSTUDY_COMPLETE": f"source_{shell}"}
    done = subprocess.run(
        [sys.executable, "-c", "from understudy.cli.main import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_UNDERSTUDY_COMPLETE" in done.stdout
    assert "understudy" in done.stdout


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "understudy", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("understudy ")
