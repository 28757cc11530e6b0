"""The wheel: it builds from what is tracked, installs, and has its data files inside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.test_house import PACKAGE, ROOT, tracked_files

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the tracked files, so that nothing lying about gets in."""
    source = tmp_path_factory.mktemp("source")
    for path in tracked_files():
        target = source / path.relative_to(ROOT)
        if path.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    out = tmp_path_factory.mktemp("wheel")
    words = ["build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr or done.stdout
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel installed into a folder; its dependencies are those of this interpreter."""
    target = tmp_path_factory.mktemp("site")
    options = ("--no-deps", "--no-index", "--quiet", "--target", str(target))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    return target


def test_every_tracked_file_of_the_package_is_in_it(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    for path in tracked_files():
        if path.is_relative_to(PACKAGE) and path.exists():
            assert str(path.relative_to(ROOT)) in packed
    assert not [name for name in packed if name.startswith("tests")]
    assert any(name.endswith("LICENSE") for name in packed)


def run(site: Path, folder: Path, *words: str) -> str:
    """The installed command, with nothing of this checkout on its path."""
    done = subprocess.run(
        [sys.executable, str(site / "bin" / "understudy"), *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(site), "UNDERSTUDY_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_installed_command_runs(site: Path, tmp_path: Path) -> None:
    assert run(site, tmp_path, "--version").startswith("understudy ")
    listed = json.loads(run(site, tmp_path, "datasets", "--json"))["rows"]
    assert "digits" in [row["dataset"] for row in listed]


def test_the_installed_package_is_the_one_that_runs(site: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [sys.executable, "-c", "import understudy; print(understudy.__file__)"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(site))


def test_presets_templates_and_cards_come_along(site: Path, tmp_path: Path) -> None:
    """A whole run needs the catalog, a preset, the card, croissant and report templates."""
    words = ("--set", "steps=2", "--set", "features=40", "--samples", "20", "-o", "out")
    run(site, tmp_path, "synthesize", "digits", "--method", "dp-merf", "--epsilon", "1", *words)
    assert "consistent" in run(site, tmp_path, "verify", "out")
    assert (tmp_path / "runs/out/report.html").stat().st_size > 10_000
