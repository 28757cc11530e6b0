"""The smoke suite as a user runs it: once, and once more.

    python benchmarks/smoke_suite.py

Promised on two cores: twelve runs in under ten minutes, each there exactly once, and a second
start that does nothing in under five seconds. `make audit` kills runners and workers.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure import EVIDENCE, REPOSITORY, understudy

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.bench.evidence.store import read_store
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import ledger_plan

RUNS, SECOND_STARTS = 12, 3
PROMISED = {"first start": 600.0, "second start": 5.0}


def main() -> None:
    provenance = Provenance.read(REPOSITORY)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        words = ["bench", "run", "smoke", "--work", str(work / "bench")]
        first = understudy(words, work)
        seconds = [understudy(words, work).seconds for _ in range(SECOND_STARTS)]
        state = _state(work)
    result = {
        "first start": {"seconds": first.seconds, "promised": PROMISED["first start"], **state},
        "second start": {"seconds": seconds, "promised": PROMISED["second start"]},
    }
    write_measurement(
        EVIDENCE,
        "smoke_suite",
        provenance=provenance,
        command="python benchmarks/smoke_suite.py",
        config={"suite": "smoke"},
        seeds=[0],
        seconds={"first start": first.seconds, "second start": max(seconds)},
        peak_gigabytes=first.peak_gigabytes,
        result=result,
    )
    print(json.dumps(result, indent=1))


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
