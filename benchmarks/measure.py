"""Run a command as a user would, and measure its time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
EVIDENCE = REPOSITORY / "benchmarks" / "evidence"


@dataclass(frozen=True)
class Measured:
    """Wall seconds, peak resident memory of the process, and what it printed."""

    seconds: float
    peak_gigabytes: float
    output: str


def understudy(arguments: Sequence[str], home: Path) -> Measured:
    """`understudy ARGUMENTS` in a process of its own."""
    environment = {**os.environ, "UNDERSTUDY_HOME": str(home)}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"understudy {' '.join(arguments)} failed with {process.returncode}")
    return Measured(seconds, usage.ru_maxrss / 2**20, output)
