"""What every test gets: an account book of its own, and a folder to run commands in."""

from __future__ import annotations

from pathlib import Path

import pytest

from .workplace import Workplace


@pytest.fixture(autouse=True)
def _own_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may reach the account books of the person who runs it."""
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture(scope="module")
def shared_workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """One folder for all tests of a file: read what is there, do not spoil it."""
    return Workplace(tmp_path_factory.mktemp("workplace"))
