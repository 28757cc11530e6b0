"""What a sweep of settings has shown so far: one line a run, with the settings that differ.

    understudy bench pack benchmarks/tuning/diffusion.yaml --classify --work W --home H -o JOB
    python -m understudy.bench.away JOB --device cuda --phases fit,sample,classify \
        --cells 'fashion-mnist-dpdm-epsilon-10-*' --stop-after 540       (there; torch only)
    python benchmarks/tuning_table.py JOB --json FILE                    (there)

Accuracies are of test records. So settings for one dataset are chosen on another one's lines, and
never on its own: a preset that was is said to be tuned on itself, and no claim covers it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.bench.away import job_folders
from understudy.bench.classify_job import CLASSIFIED, Classified
from understudy.bench.job import FILE, FitJob


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", type=Path)
    parser.add_argument("--json", type=Path, help="write all of it to this file")
    asked = parser.parse_args(words)
    rows = sorted(
        table(asked.job), key=lambda r: (r["title"], -max(r["accuracy"].values(), default=0.0))
    )
    for row in rows:
        print(line(row))
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1))


def table(job: Path) -> list[dict[str, Any]]:
    """Every run of the job, finished or not: what is its own, its figures, its seconds."""
    folders = [folder for folder in job_folders(job) if (folder / FILE).exists()]
    jobs = {folder: FitJob.read(folder) for folder in folders}
    titles = {found.title for found in jobs.values()}
    rows = []
    for title in sorted(titles):
        same = {folder: found.config for folder, found in jobs.items() if found.title == title}
        for folder, config in same.items():
            own = {k: v for k, v in config.items() if any(o[k] != v for o in same.values())}
            figures = {"title": title, "run": folder.name, "settings": own}
            rows.append({**figures, **_found(folder / "run")})
    return rows


def line(row: dict[str, Any]) -> str:
    settings = ", ".join(f"{k} {v}" for k, v in row["settings"].items()) or "as the others"
    seconds = " ".join(f"{phase} {took:.0f} s" for phase, took in row["seconds"].items())
    accuracy = " ".join(f"{k} {100 * v:5.2f}%" for k, v in row["accuracy"].items()) or "no figure"
    return f"{accuracy}  {row['title']}: {settings}  ({seconds})"


def _best(row: dict[str, Any]) -> float:
    return max(row["accuracy"].values(), default=0.0)


def _found(run: Path) -> dict[str, Any]:
    accuracy: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for phase in ("fit", "sample"):
        if (run / f"{phase}.json").exists():
            seconds[phase] = json.loads((run / f"{phase}.json").read_text())["seconds"]
    for path in sorted((run / CLASSIFIED).glob("*.json")):
        classified = Classified.read(path)
        seconds["classify"] = classified.seconds
        for figure in classified.figures:
            if figure.learned == "synthetic" and figure.accuracy is not None:
                accuracy[figure.classifier] = figure.accuracy
    return {"accuracy": accuracy, "seconds": seconds}


if __name__ == "__main__":
    main()
