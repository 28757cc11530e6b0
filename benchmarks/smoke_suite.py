"""The smoke suite as a user runs it: once, once more, and with processes killed under it.

    python benchmarks/smoke_suite.py

Promised on two cores: twelve runs in under ten minutes; a second start does nothing in under
five seconds; after `kill -9` of the runner and of a worker, ten random moments in all, every run
is there exactly once and no ledger is forked.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure import EVIDENCE, REPOSITORY, understudy

from understudy.bench.evidence import Provenance, write_measurement
from understudy.bench.store import read_store
from understudy.privacy.account_book import Book
from understudy.privacy.ledger import ledger_plan, read_ledger

RUNS, MOMENTS, SECOND_STARTS = 12, 10, 3
PROMISED = {"first start": 600.0, "second start": 5.0}


def main() -> None:
    provenance = Provenance.read(REPOSITORY)
    with tempfile.TemporaryDirectory() as name:
        quiet, rough = Path(name) / "quiet", Path(name) / "rough"
        words = ["bench", "run", "smoke", "--work", str(quiet / "bench")]
        first = understudy(words, quiet)
        seconds = [understudy(words, quiet).seconds for _ in range(SECOND_STARTS)]
        state = _state(quiet)
        moments = kill_at_random_moments(rough, first.seconds, random.Random(0))
        survived = _state(rough)
    result = {
        "first start": {"seconds": first.seconds, "promised": PROMISED["first start"], **state},
        "second start": {"seconds": seconds, "promised": PROMISED["second start"]},
        "after kill -9": {"moments": moments, **survived},
    }
    write_measurement(
        EVIDENCE,
        "smoke_suite",
        provenance=provenance,
        command="python benchmarks/smoke_suite.py",
        config={"suite": "smoke", "kills": MOMENTS},
        seeds=[0],
        seconds={"first start": first.seconds, "second start": max(seconds)},
        peak_gigabytes=first.peak_gigabytes,
        result=result,
    )
    print(json.dumps(result, indent=1))


def kill_at_random_moments(folder: Path, whole: float, chance: random.Random) -> list[str]:
    """Start the suite again and again; the runner and a worker are killed in turn."""
    told: list[str] = []
    for number in range(MOMENTS):
        after = chance.uniform(4.0, 4.0 + whole / MOMENTS)
        told.append(f"{_kill_once(folder, after, number, chance)} after {after:.1f} s")
    if _start(folder).wait():
        raise SystemExit("the suite did not end well after it was killed")
    return told


def _kill_once(folder: Path, after: float, number: int, chance: random.Random) -> str:
    runner = _start(folder)
    time.sleep(after)
    workers = _children(runner.pid)
    if runner.poll() is not None or not workers:
        raise SystemExit("the suite ended before the last moment; nothing was left to kill")
    if number % 2 == 0:
        runner.kill()
        runner.wait()
        return "runner"
    os.kill(chance.choice(workers), signal.SIGKILL)
    time.sleep(1.0)
    runner.send_signal(signal.SIGINT)
    runner.wait()
    return "worker"


def _start(folder: Path) -> subprocess.Popen[bytes]:
    words = ["bench", "run", "smoke", "--work", str(folder / "bench")]
    return subprocess.Popen(
        [sys.executable, "-m", "understudy", *words],
        env={**os.environ, "UNDERSTUDY_HOME": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in listed.read_text().split()] if listed.exists() else []


def _state(folder: Path) -> Mapping[str, Any]:
    """What a suite left: its runs in the evidence, the ledgers, and the account books.

    A ledger that were forked would follow a plan that another one follows, or that the book
    does not know, or its chain would not hold, which `read_ledger` refuses.
    """
    store = read_store(folder / "bench" / "evidence")
    runs = [file.parsed() for file in store.of_kind("run", trusted_only=True)]
    ok = [run["keys"]["evaluate"] for run in runs if run["status"] == "ok"]
    plans = [
        ledger_plan(read_ledger(path)).ident
        for path in sorted((folder / "bench" / "cells").glob("*/run/ledger.jsonl"))
    ]
    entered = [
        run.run_id
        for dataset in ("digits", "portraits")
        for run in Book.open(dataset, folder).runs()
    ]
    whole = len(ok) == len(set(ok)) == len(plans) == len(set(plans)) == RUNS
    return {
        "runs": len(ok),
        "failed": len(runs) - len(ok),
        "every run once, no ledger forked": whole and sorted(entered) == sorted(plans),
    }


if __name__ == "__main__":
    main()
