"""What every test gets: an account book of its own, and a folder to run commands in."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.workplace import Workplace


def pytest_configure() -> None:
    """Ctrl-C as in a terminal: what a shell puts into the background starts with it ignored, and
    hands that on to every process that the tests start and interrupt. One thread, as `make test`
    has it: the threads of a process that forks are lost to its children, who wait for them."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
