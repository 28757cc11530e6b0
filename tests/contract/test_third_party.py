"""A method in a package of its own: installed, found, checked, and run like any other."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workplace import Workplace
from understudy.methods.registry import method_names
from understudy.release.verify import verify

SOURCE = Path(__file__).parent / "third_party"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the path into which pip installed the package."""
    source = tmp_path_factory.mktemp("source") / "package"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("site")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(target), str(source)], check=True
    )
    return target


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_it_is_found_listed_and_passes_every_check(workplace: Workplace) -> None:
    assert "grey-mean" in method_names()
    rows = workplace.run("methods", "--json").json()["rows"]
    assert "one noisy mean image per class" in [row["summary"] for row in rows]
    said = workplace.run("check-method", "grey-mean").succeeded().out
    assert said.count("pass  ") == len(said.splitlines()) == 9


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_it_makes_a_release_that_verifies(workplace: Workplace) -> None:
    words = ("synthesize", "digits", "--method", "grey-mean", "--epsilon", "1", "-o", "out")
    workplace.run(*words, "--samples", "50").succeeded()
    found = verify(workplace / "out")
    assert found.ok
    assert found.claim is not None
    assert found.claim.method.name == "grey-mean"
    assert found.claim.method.config == {"spread": 0.1}, "its own preset was read"


def test_it_is_not_there_when_it_is_not_installed(workplace: Workplace) -> None:
    assert "grey-mean" not in method_names()
    workplace.run("check-method", "grey-mean").refused("grey-mean", "known")


def test_a_method_in_the_working_folder_is_found_by_its_path(workplace: Workplace) -> None:
    """Without installing anything, where it is being written."""
    (workplace / "mine.py").write_text("class Mine:\n    pass\n")
    workplace.run("check-method", "mine:Mine").refused("mine:Mine", "MethodInfo")
    workplace.run("check-method", "mine:Yours").refused("Yours", "Mine")
    workplace.run("check-method", "nowhere:Mine").refused("nowhere")
    workplace.run("check-method", "mine:").refused("package.module:Class")
