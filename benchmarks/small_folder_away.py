"""Runs of the small folders on another machine, timed and forecast there.

    python benchmarks/small_folder_away.py pack FOLDERS JOB
    python benchmarks/small_folder_away.py run JOB OUT [--only NAME ...] [--seconds 24]
    python benchmarks/small_folder_away.py judge FOLDERS JOB OUT

`pack` and `judge` need the whole package, `run` needs torch and numpy alone. Of each folder there
is dp-gan by the preset that was version 0.1's default, dp-feta by its rule for an H200, and
dp-merf. With --seconds, loops whose length costs no privacy are made so long that a trial on the
machine forecasts so many seconds; what the run then takes stands beside it. The folders are public,
so nothing is claimed of these runs, and no book is kept.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.data.records import Images
from understudy.data.schema import Schema
from understudy.methods.config import build_config, config_to_json
from understudy.methods.contract import Facts
from understudy.methods.registry import get_method
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.plan import Plan
from understudy.progress import Silent
from understudy.run.choosing.trial import Tried, trial

CHOICES: dict[str, dict[str, Any]] = {
    "dp-gan": {"method": "dp-gan", "preset": "default", "time": None},
    "dp-feta": {"method": "dp-feta", "device_kind": "h200"},
    "dp-merf": {"method": "dp-merf", "device_kind": "h200"},
}
FREE = {"dp-feta": "central_steps", "dp-merf": "steps"}
"""The loop of each method that looks at what is released already."""


def pack(folders: Path, job: Path) -> None:
    from small_folders import EPSILON, READING

    from understudy.run.config import RunConfig
    from understudy.run.prepare import prepare
    from understudy.run.synthesize import calibrate

    job.mkdir(parents=True, exist_ok=True)
    for folder, reading in READING.items():
        for choice, chosen in CHOICES.items():
            with tempfile.TemporaryDirectory() as home:
                asked = RunConfig(str(folders / folder), epsilon=EPSILON, **reading, **chosen)
                prepared = prepare(asked, Path(home), Silent())
                plan = calibrate(prepared)
            told = {
                "folder": folder,
                "method": prepared.config.method,
                "config": config_to_json(prepared.settings.config),
                "plan": plan.to_json(),
                "noise": prepared.noise,
                "counts": dict(prepared.facts.counts),
                "count": prepared.facts.count,
                "schema": prepared.facts.schema.to_json(),
            }
            (job / f"{folder}-{choice}.json").write_text(json.dumps(told), encoding="utf-8")
            _write(job / f"{folder}.npz", prepared.parts["train"])
            print(f"{folder}-{choice}: {told['config']}")


def _write(path: Path, records: Any) -> None:
    units = (
        {} if records.units is None else {"units": np.unique(records.units, return_inverse=True)[1]}
    )
    np.savez_compressed(path, features=records.features, labels=records.labels, **units)


def run(job: Path, out: Path, only: list[str], seconds: float | None) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(job.glob("*-*.json")):
        if not only or path.stem in only:
            found = _run(job, path.stem, out, seconds)
            print(json.dumps({"name": path.stem, **found}), flush=True)


def _run(job: Path, name: str, out: Path, seconds: float | None) -> dict[str, Any]:
    told = json.loads((job / f"{name}.json").read_text(encoding="utf-8"))
    records = _records(job / f"{told['folder']}.npz", told)
    method, counts = get_method(told["method"]), told["counts"]
    config = build_config(method.Config, told["config"])
    samples = sum(counts.values())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found: dict[str, Any] = {}
    if seconds is not None:
        facts = Facts(told["count"], counts, records.shape, records.schema)
        tried = Tried(method, config, facts, told["noise"], device, samples)
        config, found = _as_long(tried, seconds)
    found |= _timed_run(told, records, config, samples, device, out / f"{name}.npz")
    found |= {"config": config_to_json(config), "device": str(device)}
    (out / f"{name}.json").write_text(json.dumps(found), encoding="utf-8")
    return {key: value for key, value in found.items() if key != "config"}


def _as_long(tried: Tried, seconds: float) -> tuple[Any, dict[str, Any]]:
    """The config with as many free rounds as a trial gives these seconds for, and its forecast."""
    begun = time.monotonic()
    pace = trial(tried)
    took = time.monotonic() - begun
    setting = FREE[tried.method.info.name]
    loops = {loop.setting: loop for loop in tried.loops}
    each = pace.rounds[loops[setting].bar]
    rest = pace.seconds(tried.loops) - each * loops[setting].rounds
    rounds = max(1, round((seconds - rest) / each))
    longer = dataclasses.replace(
        tried, config=dataclasses.replace(tried.config, **{setting: rounds})
    )
    rows = [{**dataclasses.asdict(loop), "seconds": pace.rounds[loop.bar]} for loop in longer.loops]
    forecast = pace.seconds(longer.loops)
    return longer.config, {"forecast": forecast, "trial": took, "start": pace.start, "loops": rows}


def _timed_run(
    told: dict[str, Any],
    records: Images,
    config: Any,
    samples: int,
    device: torch.device,
    out: Path,
) -> dict[str, float]:
    from understudy.run.execute_plan import MethodInputs, execute_plan
    from understudy.run.folder import RunFolder, create_run_folder
    from understudy.run.sampling import sample

    method, plan = get_method(told["method"]), Plan.from_json(told["plan"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        create_run_folder(folder, lambda new: new.write_plan(plan, {}))
        inputs = MethodInputs(
            method, config, {"train": records}, told["counts"], str(device), 0, samples, b"away" * 8
        )
        begun = time.monotonic()
        execute_plan(RunFolder(folder), inputs, NoiseSource(), Silent())
        fitted = time.monotonic()
        kept = RunFolder(folder)
        made = sample(kept, kept, method, samples, 0, str(device), Silent())
        drawn = time.monotonic()
    np.savez_compressed(out, features=made.features, labels=made.labels)
    return {"fit": fitted - begun, "sample": drawn - fitted, "took": drawn - begun}


def _records(path: Path, told: dict[str, Any]) -> Images:
    schema = Schema.from_json(told["schema"])
    with np.load(path) as kept:
        units = kept.get("units")
        labels = {schema.label_attribute.name: kept["labels"]}
        return Images(kept["features"], labels, schema, units)


def judge(folders: Path, job: Path, out: Path) -> None:
    """The balanced accuracy of each set of pictures on those from elsewhere, by classifier."""
    from small_folder_trials import balanced
    from small_folders import READING

    from understudy.data.load import load

    for path in sorted(out.glob("*-*.npz")):
        told = json.loads((job / f"{path.stem}.json").read_text(encoding="utf-8"))
        reading = {k: v for k, v in READING[told["folder"]].items() if k != "unit"}
        elsewhere = load(folders / f"{told['folder']}-elsewhere", **reading)
        test = next(iter(elsewhere.parts.values()))
        made, train = (_records(p, told) for p in (path, job / f"{told['folder']}.npz"))
        found = balanced(made, train, test, "cpu", seeds=3)
        (out / f"{path.stem}-judged.json").write_text(json.dumps(found), encoding="utf-8")
        print(path.stem, found, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, places in (("pack", ("folders", "job")), ("run", ("job", "out"))):
        asking = verbs.add_parser(verb)
        for place in places:
            asking.add_argument(place, type=Path)
    asking.add_argument("--only", nargs="*", default=[])
    asking.add_argument("--seconds", type=float)
    judging = verbs.add_parser("judge")
    for place in ("folders", "job", "out"):
        judging.add_argument(place, type=Path)
    asked = parser.parse_args()
    if asked.verb == "pack":
        pack(asked.folders, asked.job)
    elif asked.verb == "run":
        run(asked.job, asked.out, asked.only, asked.seconds)
    else:
        judge(asked.folders, asked.job, asked.out)


if __name__ == "__main__":
    main()
