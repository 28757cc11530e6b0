"""A private diffusion model of the built-in digits, as a user makes it, and what it is worth.

    python benchmarks/dpdm_digits.py [--method dpdm]

Promised: `understudy synthesize digits --method dpdm --epsilon 10` under five minutes on two
cores, and a CNN trained on what it makes reads at least 80% of the real test digits (standard
protocol). One seed; settings are those of the preset, which says what it was tuned on.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from measure import EVIDENCE, REPOSITORY, understudy

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.methods.config import config_to_json, resolve_config
from understudy.methods.registry import get_method

DATA, EPSILON, SEED = "digits", 10.0, 0
PUBLIC = "portraits"
SECONDS, ACCURACY = 300, 0.80


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--method", default="dpdm")
    parser.add_argument("--out", type=Path, default=EVIDENCE, help="the folder of evidence")
    asked = parser.parse_args()
    provenance = Provenance.read(REPOSITORY)
    method = get_method(asked.method)
    settings = resolve_config(method, DATA, EPSILON)
    public = ["--public", PUBLIC] if method.info.public else []
    words = ["synthesize", DATA, "--method", asked.method, "--epsilon", f"{EPSILON:g}", *public]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        places = ["-o", str(work / "release"), "--runs", str(work / "runs")]
        made = understudy([*words, *places, "--seed", str(SEED), "--json"], work)
        run = next((work / "runs").iterdir())
        measured = understudy(["evaluate", "--run", str(run), "--json"], work)
        rows = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["rows"]
    accuracy = _accuracies(rows)
    write_measurement(
        asked.out,
        f"{asked.method}-digits",
        provenance=provenance,
        command=f"python benchmarks/dpdm_digits.py --method {asked.method}",
        config={"settings": config_to_json(settings.config), "tuned on": settings.tuned_on},
        seeds=[SEED],
        seconds={"synthesize": made.seconds, "evaluate": measured.seconds},
        peak_gigabytes=made.peak_gigabytes,
        result={
            "gen2real accuracy": accuracy,
            "cores": os.cpu_count(),
            "promised": {"seconds": SECONDS, "CNN accuracy": ACCURACY},
            "kept": made.seconds < SECONDS and accuracy["cnn"]["value"] >= ACCURACY,
        },
    )
    found = accuracy["cnn"]
    print(f"{made.seconds:.0f} s; CNN {100 * found['value']:.1f}% of real test digits")


def _accuracies(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By classifier: accuracy on real test records, its interval, and what real records give."""
    return {
        row["variant"]: {field: row[field] for field in ("value", "low", "high", "reference")}
        for row in rows
        if row["metric"] == "gen2real accuracy"
    }


if __name__ == "__main__":
    main()
