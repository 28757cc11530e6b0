"""What runs were forecast to take by a trial, beside what they took.

    python benchmarks/small_folders.py FOLDERS --which figures
    python benchmarks/forecasts.py FOLDERS WORK --kind cpu

Each run is settled as an owner's would be (`--time`), by a trial here; then the very settings that
came out are run. Nothing else should run on the machine meanwhile. The folders are public data.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from measure import EVIDENCE, REPOSITORY
from small_folders import EPSILON, READING

from understudy.bench.evidence.evidence import write_measurement
from understudy.bench.evidence.provenance import Provenance
from understudy.run.choosing.settle import in_words
from understudy.run.config import RunConfig
from understudy.run.folder import RunFolder
from understudy.run.synthesize import preview, synthesize

RUNS: dict[str, tuple[tuple[str, str, float], ...]] = {
    "cpu": (
        ("scans", "dp-merf", 25),
        ("things", "dp-merf", 45),
        ("faces", "dp-merf", 30),
        ("scans", "dp-feta", 30),
        ("things", "dp-feta", 60),
        ("faces", "dp-feta", 45),
        ("scans", "dp-gan", 45),
        ("things", "dp-gan", 75),
        ("scans", "dpdm", 30),
        ("things", "dpdm", 90),
    )
}


def measured(folders: Path, work: Path, folder: str, method: str, seconds: float) -> dict[str, Any]:
    place, home = work / f"{folder}-{method}-{seconds:g}", work / "home"
    asked = RunConfig(
        str(folders / folder), method, EPSILON, time=seconds, dataset=place.name, **READING[folder]
    )
    seen = preview(asked, home=home)
    assert seen.expected is not None
    words = in_words(seen.prepared.settings.config)
    fixed = RunConfig(
        str(folders / folder),
        method,
        EPSILON,
        time=None,
        dataset=place.name,
        changes=words,
        **READING[folder],
    )
    done = synthesize(fixed, place, run_folder=work / "runs" / place.name, home=home)
    times = RunFolder(done.run).times()
    took = times["fit"] + times["sample"]
    return {
        "folder": folder,
        "method": method,
        "time": seconds,
        "forecast": seen.expected.seconds,
        "by": seen.expected.where,
        "took": took,
        "ratio": seen.expected.seconds / took,
        "settings": list(words),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--kind", choices=tuple(RUNS), default="cpu")
    asked = parser.parse_args()
    rows = []
    for run in RUNS[asked.kind]:
        rows.append(measured(asked.folders, asked.work, *run))
        told = {key: value for key, value in rows[-1].items() if key != "settings"}
        print(json.dumps(told), flush=True)
    factors = [max(row["ratio"], 1 / row["ratio"]) for row in rows]
    write_measurement(
        EVIDENCE,
        f"forecasts-{asked.kind}",
        provenance=Provenance.read(REPOSITORY),
        command=f"python benchmarks/forecasts.py FOLDERS WORK --kind {asked.kind}",
        config={"epsilon": EPSILON, "reading": READING},
        seeds=[0],
        seconds={"runs": sum(row["took"] for row in rows)},
        peak_gigabytes=None,
        result={"runs": rows, "off by at most": max(factors)},
    )


if __name__ == "__main__":
    main()
