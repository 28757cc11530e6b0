"""Processes that run one command each and may be killed at any moment.

Importing torch takes seconds and says nothing about a run, so one nurse process imports
everything once and forks a child for each command. The nurse itself computes nothing, so
a child starts from a clean state; its noise is keyed anew, as after any fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

IMPORTED_ONCE = (
    *("torch._dynamo", "torch.onnx", "dp_accounting", "opacus", "pandas", "pyarrow.parquet"),
    *("understudy.run.synthesize", "understudy.privacy.dpsgd.session"),
    *(
        "understudy.methods.dp_merf",
        "understudy.methods.dp_gan",
        "understudy.privacy.plan.calibration",
    ),
)
"""What a run would import on its way."""

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Child:
    """One running command."""

    pid: int
    _answers: IO[str]

    def kill(self, signal: int) -> None:
        """Send a signal; a child that is already gone is not an error."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal)

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        return int(self._answers.readline())


class Nurse:
    """Starts children. Only one runs at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._answers = process.stdin, process.stdout

    def start(self, words: list[str], folder: Path, output: Path) -> Child:
        order = {"words": words, "folder": str(folder), "output": str(output)}
        print(json.dumps(order), file=self._orders, flush=True)
        return Child(int(self._answers.readline()), self._answers)


@contextlib.contextmanager
def nursery(module: str = "tests.run.nursery") -> Iterator[Nurse]:
    """A nurse whose children run what `module` tells them to."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    with process:
        yield Nurse(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def obey(run: object, imported: tuple[str, ...] = ()) -> None:
    """The nurse: fork a child for each order, say its pid, then how it ended."""
    for name in (*IMPORTED_ONCE, *imported):
        importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os._exit(_child(run, order))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _child(run: object, order: dict[str, object]) -> int:
    os.chdir(str(order["folder"]))
    os.environ["UNDERSTUDY_HOME"] = str(Path(str(order["folder"])) / "home")
    with (
        Path(str(order["output"])).open("w", buffering=1) as said,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        assert callable(run)
        return int(run(order["words"]))


if __name__ == "__main__":
    from understudy.cli.main import run

    obey(run)
