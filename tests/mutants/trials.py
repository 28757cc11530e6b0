"""Running one test in a process of its own, with or without a planted fault.

The process is forked from one that has imported what is heavy and nothing of ours, so that
a trial costs its test and little more.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.faults import Fault
from tests.mutants.patches import ROOT, Edit, PatchError, plant

PATIENCE_S = 120.0
_CRASH = re.compile(r"^E\s+(Name|UnboundLocal|Attribute|Type|Syntax|Import)Error\b", re.MULTILINE)
_HEAVY = (
    "numpy",
    "torch",
    "torch.func",
    "scipy.stats",
    "yaml",
    "pytest",
    "hypothesis",
    "dp_accounting.pld.privacy_loss_distribution",
    "dp_accounting.rdp.rdp_privacy_accountant",
    "opacus",
    "pyarrow.parquet",
    "PIL.Image",
    "sklearn.datasets",
    "safetensors.torch",
    "typer",
    "rich.progress",
    "jinja2",
    "xml.etree.ElementTree",
    "tomllib",
    "pdb",
)


@dataclass(frozen=True)
class Outcome:
    """What became of one test: `passed`, `failed`, or `broke` (it did not get to run)."""

    state: str
    words: str
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """Whether a fault was caught as it should be; `why` says how it was not."""

    fault: Fault
    caught: bool
    why: str
    seconds: float


def judge(fault: Fault, outcome: Outcome) -> Verdict:
    """Caught is: the named test ran and failed, with the words that belong to this fault."""
    why = ""
    if outcome.state == "passed":
        why = f"{fault.test} passed"
    elif outcome.state != "failed":
        why = f"{fault.test} did not run: {outcome.words}"
    elif _CRASH.search(outcome.words):
        why = f"the patch crashes instead of breaking a promise: {outcome.words[-1500:]}"
    elif fault.fails_with not in outcome.words:
        why = f"{fault.test} failed without saying {fault.fails_with!r}: {outcome.words[-1500:]}"
    return Verdict(fault, not why, why, outcome.seconds)


def preload() -> None:
    """Import what every trial would; nothing that can be patched."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in _HEAVY:
        importlib.import_module(name)
    gc.freeze()  # what children never collect, they need not copy
    ours = [m for m in sys.modules if m.partition(".")[0] == "understudy"]
    if ours:
        raise PatchError(f"{ours[0]} is imported already: run trials in a fresh process")


def run_trials(
    jobs: Sequence[tuple[str, tuple[Edit, ...]]], at_once: int
) -> Iterator[tuple[int, Outcome]]:
    """The outcome of each (test, edits), as they end, with its place in `jobs`."""
    waiting = list(enumerate(jobs))
    running: dict[int, _Child] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            number, (test, edits) = waiting.pop(0)
            running[number] = _Child.start(test, edits)
        for number, child in list(running.items()):
            outcome = child.outcome()
            if outcome is not None:
                del running[number]
                yield number, outcome
        time.sleep(0.02)


@dataclass(frozen=True)
class _Child:
    pid: int
    folder: Path
    began: float

    @staticmethod
    def start(test: str, edits: Sequence[Edit]) -> _Child:
        memory = "/dev/shm"  # nothing is kept, so nothing need reach a disk
        place = memory if os.access(memory, os.W_OK) else None
        folder = Path(tempfile.mkdtemp(prefix="trial-", dir=place))
        sys.stdout.flush()
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _in_child(test, edits, folder)
        return _Child(pid, folder, began)

    def outcome(self) -> Outcome | None:
        """What it left, once it has ended or has taken too long."""
        seconds = time.monotonic() - self.began
        ended, _ = os.waitpid(self.pid, os.WNOHANG)
        if not ended and seconds < PATIENCE_S:
            return None
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        try:
            told = json.loads((self.folder / "outcome.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            told = {"state": "broke", "words": "it died or took too long"}
        shutil.rmtree(self.folder, ignore_errors=True)
        return Outcome(told["state"], told["words"], seconds)


def _in_child(test: str, edits: Sequence[Edit], folder: Path) -> None:
    """Plant, test, tell, and leave without ever returning to the parent's code."""
    code = 1
    try:
        with (folder / "said.txt").open("w") as said:
            for stream in (1, 2):
                os.dup2(said.fileno(), stream)
            state, words = _tested(test, edits, folder)
        told = asdict(Outcome(state, words, 0.0))
        (folder / "outcome.json").write_text(json.dumps(told), encoding="utf-8")
        code = 0
    finally:
        os._exit(code)


def _tested(test: str, edits: Sequence[Edit], folder: Path) -> tuple[str, str]:
    import pytest

    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    try:
        plant(edits)
    except PatchError as error:
        return "broke", f"the patch does not apply: {error}"
    notes = _Notes()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # half of what a trial would take
    words = [test, "-q", "-x", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
    pytest.main([*words, f"--basetemp={folder / 'base'}"], plugins=[notes])
    return notes.result()


def failing_lines(told: str) -> str:
    """The lines of pytest's account that failed, and with what.

    It prints the whole test down to there, and words of a line that passed prove nothing.
    """
    return "\n".join(line for line in told.splitlines() if line.startswith((">", "E ")))


class _Notes:
    """A pytest plugin that remembers how tests ended."""

    def __init__(self) -> None:
        self._ran = 0
        self._failed: list[str] = []
        self._broke: list[str] = []

    def pytest_runtest_logreport(self, report) -> None:  # type: ignore[no-untyped-def]
        if report.when == "call":
            self._ran += not report.skipped
            if report.failed:
                self._failed.append(failing_lines(report.longreprtext))
        elif report.failed:
            self._broke.append(report.longreprtext)

    def pytest_collectreport(self, report) -> None:  # type: ignore[no-untyped-def]
        if report.failed:
            self._broke.append(report.longreprtext)

    def result(self) -> tuple[str, str]:
        if self._failed:
            return "failed", "\n".join(self._failed)
        if self._broke or not self._ran:
            return "broke", "\n".join(self._broke)[-2000:] or "no test of that name ran"
        return "passed", ""
