"""Fit, sample, release and evaluate one method on one dataset, as a user would.

    python benchmarks/synthesize.py mnist dp-merf 1

Needs the dataset's raw files under $UNDERSTUDY_DATA. Seconds are wall time of
`understudy synthesize` (process start, loading, fit, sampling, release, reports); `fit` and
`sample` are its own record of those phases. The evaluation is the standard protocol.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from measure import EVIDENCE, REPOSITORY, understudy

from understudy.bench.evidence import Provenance, write_evidence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("method")
    parser.add_argument("epsilon", type=float)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--protocol", default="standard")
    asked = parser.parse_args()
    provenance = Provenance.read(REPOSITORY)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        arguments = [
            *("synthesize", asked.dataset, "--method", asked.method),
            *("--epsilon", str(asked.epsilon), "--delta", str(asked.delta)),
            *("--seed", str(asked.seed)),
        ]
        places = ["-o", str(work / "out"), "--runs", str(work / "runs"), "--json"]
        made = understudy([*arguments, *places], work)
        found = json.loads(made.output)
        checked = understudy(["verify", str(work / "out"), "--digest", found["digest"]], work)
        judged = understudy(
            ["evaluate", "--run", str(work / "runs/out"), "--protocol", asked.protocol, "--json"],
            work,
        )
        times = json.loads((work / "runs/out/times.json").read_text())
    write_evidence(
        EVIDENCE / f"{asked.dataset}-{asked.method}-epsilon{asked.epsilon:g}-seed{asked.seed}.json",
        provenance=provenance,
        command=f"understudy {' '.join(arguments)}",
        config=found["claim"]["method"],
        seeds=[asked.seed],
        seconds={"synthesize": made.seconds, "evaluate": judged.seconds, **times},
        peak_gigabytes=made.peak_gigabytes,
        result=_result(found, checked.output, json.loads(judged.output)),
    )


def _result(found: dict[str, Any], verdict: str, metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        "epsilon": found["epsilon"],
        "delta": found["delta"],
        "accountant": found["claim"]["accountant"],
        "tuning": found["claim"]["tuning"],
        "records": found["claim"]["records"]["count"],
        "verdict": verdict.splitlines()[0],
        "metrics": metrics,
    }


if __name__ == "__main__":
    main()
