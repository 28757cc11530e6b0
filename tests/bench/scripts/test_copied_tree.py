"""Measurements of a copy of the files are those of the commit that holds the same files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scripts import load_script
from understudy.bench.evidence.provenance import Provenance
from understudy.errors import UserError

script = load_script("copied_tree")
TOLD = Provenance("unknown", None, {"torch": "9"}, {"gpus": ["one"]}).to_json()


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("understudy/one.py", "understudy/room/two.py", "benchmarks/three.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    (tmp_path / "understudy" / "notes.txt").write_text("not code")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def test_a_commit_and_a_copy_of_it_have_one_digest(repository: Path) -> None:
    digest = script.tree_digest(repository)
    assert script.commit_digest("HEAD", repository) == digest
    (repository / "understudy" / "notes.txt").write_text("other words")
    assert script.tree_digest(repository) == digest
    (repository / "understudy" / "room" / "two.py").write_text("# changed\n")
    assert script.tree_digest(repository) != digest
    assert script.commit_digest("HEAD", repository) == digest


def test_a_measurement_gets_the_commit_whose_code_it_ran(repository: Path) -> None:
    code, first = script.tree_digest(repository), git(repository, "rev-parse", "HEAD")
    found = script.at_home(TOLD, code, repository=repository)
    assert (found.commit, found.dirty) == (first, False)
    assert (found.versions, found.hardware) == ({"torch": "9"}, {"gpus": ["one"]})
    (repository / "benchmarks" / "three.py").write_text("# later\n")
    git(repository, "commit", "-q", "-a", "-m", "two")
    assert script.at_home(TOLD, code, first, repository).commit == first
    with pytest.raises(UserError, match="--commit"):
        script.at_home(TOLD, code, repository=repository)
    with pytest.raises(UserError, match="git archive"):
        script.at_home(TOLD, code, "no-such-commit", repository)


def test_files_that_were_never_committed_are_said_to_be_dirty(repository: Path) -> None:
    (repository / "benchmarks" / "three.py").write_text("# on the way\n")
    found = script.at_home(TOLD, script.tree_digest(repository), repository=repository)
    assert found.commit == git(repository, "rev-parse", "HEAD")
    assert found.dirty
