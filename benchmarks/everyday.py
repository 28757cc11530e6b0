"""What a user waits for every day: `--help`, the demo, and ten thousand portraits.

    python benchmarks/everyday.py

Promised on two cores: help under 0.5 s, the demo under 120 s, portraits under 20 s.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import torch
from measure import EVIDENCE, REPOSITORY, understudy

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.data.portraits import portraits


def main() -> None:
    provenance = Provenance.read(REPOSITORY)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        helps = [understudy(["--help"], work).seconds for _ in range(7)]
        demo = understudy(["demo", "-o", str(work / "demo")], work)
    torch.set_num_threads(1)
    start = time.perf_counter()
    drawn = portraits(10_000, 64, 0)
    drawing = time.perf_counter() - start
    write_measurement(
        EVIDENCE,
        "everyday",
        provenance=provenance,
        command="python benchmarks/everyday.py",
        config={"portraits": {"count": len(drawn), "size": 64}},
        seeds=[0],
        seconds={"help": statistics.median(helps), "demo": demo.seconds, "portraits": drawing},
        peak_gigabytes=demo.peak_gigabytes,
        result={
            "help": {"seconds": helps, "promised": 0.5},
            "demo": {"printed": _without_paths(demo.output, name), "promised": 120},
            "portraits": {"promised": 20},
        },
    )


def _without_paths(text: str, folder: str) -> list[str]:
    return text.replace(folder, "...").splitlines()


if __name__ == "__main__":
    main()
