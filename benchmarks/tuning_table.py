"""What a sweep of settings has shown so far: one line a run, with the settings that differ.

    understudy bench pack benchmarks/tuning/diffusion.yaml --classify --work W --home H -o JOB
    python -m understudy.bench.away JOB --device cuda --phases fit,sample,classify \
        --cells 'fashion-mnist-dp-feta-epsilon-1-*' --stop-after 540       (there; torch only)
    python benchmarks/tuning_table.py JOB --json FILE                    (there)
    python benchmarks/tuning_table.py --evidence FILE... --name NAME     (here; what they found)

Accuracies are of test records. So settings for one dataset are chosen on another one's lines, and
never on its own: a preset that was is said to be tuned on itself, and no claim covers it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import EVIDENCE

from understudy.bench.away.classify_job import CLASSIFIED, Classified
from understudy.bench.away.fit_jobs import job_folders
from understudy.bench.away.job import FILE, FitJob
from understudy.bench.evidence.provenance import Provenance


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", type=Path, nargs="?")
    parser.add_argument("--json", type=Path, help="write all of it to this file")
    parser.add_argument("--evidence", type=Path, nargs="+", help="make evidence of such files")
    parser.add_argument("--name", default="tuning", help="of the evidence")
    parser.add_argument("--store", type=Path, help="where evidence goes; else the repository")
    asked = parser.parse_args(words)
    if asked.evidence is not None:
        write_evidence(asked)
        return
    if asked.job is None:
        parser.error("a JOB, or --evidence FILE, is needed.")
    rows = sorted(table(asked.job), key=lambda row: (row["title"], -_best(row)))
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
            figures = {"title": title, "run": folder.name, "settings": own, "config": config}
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
    measured: dict[str, Any] = {}
    for phase in ("fit", "sample"):
        if (run / f"{phase}.json").exists():
            measured = json.loads((run / f"{phase}.json").read_text())
            seconds[phase] = measured["seconds"]
    for path in sorted((run / CLASSIFIED).glob("*.json")):
        classified = Classified.read(path)
        seconds["classify"] = classified.seconds
        for figure in classified.figures:
            if figure.learned == "synthetic" and figure.accuracy is not None:
                accuracy[figure.classifier] = figure.accuracy
    told = {key: measured[key] for key in ("commit", "dirty", "versions", "hardware") if measured}
    return {"accuracy": accuracy, "seconds": seconds, "provenance": told}


def write_evidence(asked: argparse.Namespace) -> None:
    """One file of all runs that have figures, of one commit and one kind of machine."""
    from understudy.bench.evidence.evidence import write_measurement

    found = [row for path in asked.evidence for row in json.loads(path.read_text())]
    rows = {row["run"]: row for row in found if row["accuracy"]}
    told = {json.dumps(row.pop("provenance"), sort_keys=True) for row in rows.values()}
    if not rows:
        raise SystemExit("no run in these files has a figure yet.")
    if len(told) != 1:
        raise SystemExit(
            f"{len(told)} commits or machines: evidence is of one; name the files apart."
        )
    write_measurement(
        asked.store or EVIDENCE,
        asked.name,
        provenance=Provenance.from_json(json.loads(told.pop())),
        command="python benchmarks/tuning_table.py JOB --json FILE",
        config={"classifiers learned from": "synthetic images; judged on test records"},
        seeds=[0],
        seconds={name: sum(row["seconds"].values()) for name, row in rows.items()},
        peak_gigabytes=None,
        result={"runs": sorted(rows.values(), key=lambda row: (row["title"], -_best(row)))},
    )


if __name__ == "__main__":
    main()
