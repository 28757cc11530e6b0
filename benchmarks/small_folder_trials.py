"""Settings for small folders, compared on public subsets of such sizes.

    python benchmarks/small_folders.py FOLDERS --which tuning
    python benchmarks/small_folder_trials.py plan FOLDERS TRIALS.yaml JOB
    python benchmarks/small_folder_trials.py run JOB --part 1/8 [--device cuda]
    python benchmarks/small_folder_trials.py write JOB [JOB ...]

`run` needs torch and numpy alone, and may be started several times, each with a part of the trials.
It leaves JOB/results-PART.jsonl: of each trial the mean balanced accuracy of two classifiers on the
folder's other part, and the time of its fit. The noise is that of a real run. No claim is made of
these records, which are public. `write` makes evidence of all results.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.data.records import Images
from understudy.data.schema import Schema
from understudy.methods.config import build_config, config_to_json
from understudy.methods.contract import Facts, Method
from understudy.methods.registry import get_method
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.plan import Plan
from understudy.progress import Silent

MOST_SAMPLES = 3000


def write_job(folders: Path, trials: Path, job: Path) -> None:
    import yaml

    from understudy.data.load import load

    asked = yaml.safe_load(trials.read_text(encoding="utf-8"))
    job.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Facts] = {}
    for task, reading in asked["tasks"].items():
        parts = [
            next(iter(load(folders / name, **reading).parts.values()))
            for name in (task, f"{task}-elsewhere")
        ]
        _write_records(job / f"{task}.npz", *parts)
        count = len(parts[0])
        facts[task] = Facts(count, {"train": count}, parts[0].shape, parts[0].schema)
    found = [_planned(trial, facts) for block in asked["trials"] for trial in _expanded(block)]
    (job / "trials.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{len(found)} trials")


def _expanded(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of what `vary` lists, on top of `settings` and of what a task has."""
    names = list(block.get("vary", {}))
    for task in block["tasks"]:
        own = {**block.get("settings", {}), **block.get("of", {}).get(task, {})}
        for values in itertools.product(*block.get("vary", {}).values()):
            varied = dict(zip(names, values, strict=True))
            flat: dict[str, Any] = {}
            for key, value in varied.items():
                flat.update(value if isinstance(value, dict) else {key: value})
            yield {
                "task": task,
                "method": block["method"],
                "epsilon": block.get("epsilon", 10.0),
                "by_rule": block.get("by_rule"),
                "varied": flat,
                "settings": {**own, **flat},
            }


def _planned(trial: dict[str, Any], facts: Mapping[str, Facts]) -> dict[str, Any]:
    from understudy.privacy.plan.plan import Budget

    method, of = get_method(trial["method"]), facts[trial["task"]]
    base = config_to_json(_base(method, trial, of))
    config = build_config(method.Config, {**base, **trial["settings"]})
    plan = Budget(trial["epsilon"], 1e-5).calibrate(method.spend(config, of))
    return {**trial, "config": config_to_json(config), "plan": plan.to_json()}


def _base(method: Method, trial: Mapping[str, Any], facts: Facts) -> Any:
    """The default preset, or what the rule gives for `by_rule` seconds on two cores, by rates."""
    from understudy.methods.config import resolve_config
    from understudy.methods.machines import CPU, machine
    from understudy.methods.rules import find_rule
    from understudy.run.choosing.fitting import ByRates, Ladder, fit_into

    if trial["by_rule"] is None:
        return resolve_config(method, epsilon=trial["epsilon"]).config
    rule = find_rule(method, facts, trial["epsilon"])
    if rule is None:
        raise SystemExit(f"{trial['method']} has no rule for {trial['task']}")
    samples = min(facts.count, MOST_SAMPLES)
    ladder = Ladder(method, rule, facts, samples)
    return fit_into(trial["by_rule"], ladder, ByRates(machine(CPU))).config


def _write_records(path: Path, train: Images, test: Images) -> None:
    np.savez_compressed(
        path,
        train=train.features,
        test=test.features,
        train_labels=train.labels,
        test_labels=test.labels,
        schema=json.dumps(train.schema.to_json()),
    )


def _read_records(path: Path) -> tuple[Images, Images]:
    with np.load(path) as kept:
        schema = Schema.from_json(json.loads(str(kept["schema"])))
        name = schema.label_attribute.name
        one, other = (
            Images(kept[part], {name: kept[f"{part}_labels"]}, schema) for part in ("train", "test")
        )
    return one, other


def run(job: Path, part: str, device: str) -> None:
    number, of = map(int, part.split("/"))
    trials = json.loads((job / "trials.json").read_text(encoding="utf-8"))
    with (job / f"results-{number}.jsonl").open("a", encoding="utf-8") as out:
        for trial in trials[number - 1 :: of]:
            try:
                found = _tried(job, trial, device)
            except Exception as error:  # noqa: BLE001 - a trial that fails is a row with its reason
                found = {"failed": f"{type(error).__name__}: {error}"[:300]}
            row = {k: trial[k] for k in ("task", "method", "epsilon", "by_rule", "varied")} | found
            print(json.dumps(row), flush=True)
            out.write(json.dumps({**row, "settings": trial["settings"]}) + "\n")
            out.flush()


def _tried(job: Path, trial: Mapping[str, Any], device: str) -> dict[str, Any]:
    from understudy.run.execute_plan import MethodInputs, execute_plan
    from understudy.run.folder import RunFolder, create_run_folder
    from understudy.run.sampling import sample

    _fast_to_start()
    train, test = _read_records(job / f"{trial['task']}.npz")
    method, plan = get_method(trial["method"]), Plan.from_json(trial["plan"])
    config = build_config(method.Config, trial["config"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        create_run_folder(folder, lambda new: new.write_plan(plan, {}))
        parts, counts = {"train": train}, {"train": len(train)}
        samples = min(len(train), MOST_SAMPLES)
        inputs = MethodInputs(method, config, parts, counts, device, 0, samples, b"trial" * 8)
        begun = time.monotonic()
        execute_plan(RunFolder(folder), inputs, NoiseSource(), Silent())
        fitted = time.monotonic()
        kept = RunFolder(folder)
        made = sample(kept, kept, method, samples, 0, device, Silent())
        drawn = time.monotonic()
    return {
        "sigma": next(getattr(m, "sigma", None) for m in plan.mechanisms[::-1]),
        "fit seconds": round(fitted - begun, 1),
        "sample seconds": round(drawn - fitted, 1),
        **balanced(made, train, test, device),
    }


def write(jobs: Sequence[Path]) -> None:
    from measure import EVIDENCE, REPOSITORY

    from understudy.bench.evidence.evidence import write_measurement
    from understudy.bench.evidence.provenance import Provenance

    rows = [row for job in jobs for row in _results(job)]
    write_measurement(
        EVIDENCE,
        "tuning-small-folders",
        provenance=Provenance.read(REPOSITORY),
        command="python benchmarks/small_folder_trials.py run JOB --part 1/2",
        config={"trials": "benchmarks/tuning/small-folders.yaml", "most samples": MOST_SAMPLES},
        seeds=[0],
        seconds={"fits": sum(row.get("fit seconds", 0.0) for row in rows)},
        peak_gigabytes=None,
        result={"trials": sorted(rows, key=_key)},
    )


def _results(job: Path) -> Iterator[dict[str, Any]]:
    """Each row of a job with the settings that were fitted."""
    trials = json.loads((job / "trials.json").read_text(encoding="utf-8"))
    configs = {_key(trial): trial["config"] for trial in trials}
    for file in sorted(job.glob("results-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            row.pop("settings")
            yield {**row, "config": configs[_key(row)]}


def _key(row: Mapping[str, Any]) -> tuple[str, str, int, str]:
    varied = json.dumps(row["varied"], sort_keys=True)
    return row["task"], row["method"], row["by_rule"] or 0, varied


def balanced(
    made: Images, train: Images, test: Images, device: str, seeds: int = 1
) -> dict[str, float]:
    """Balanced accuracy on the other part, by classifier: the mean over the first seeds."""
    from understudy.evaluation.case import Case
    from understudy.evaluation.protocol import load_protocol
    from understudy.run.context import choose_device

    protocol = dataclasses.replace(load_protocol("standard"), seeds=seeds)
    case = Case(
        made, train, test, protocol, device=choose_device(device), seed=0, progress=Silent()
    )
    found = {}
    for name in protocol.classifiers:
        figures = case.by_seed("synthetic", "test", name)
        shares = [right / of for f in figures for right, of in f.by_class or () if of]
        found[name] = round(float(np.mean(shares)), 4)
    return found


def _fast_to_start() -> None:
    """Gradients by a backend that compiles nothing: trials are short, and there are many."""
    from understudy.methods.diffusion import private_training

    usual = private_training.speed_of
    if getattr(usual, "starts_fast", False):
        return

    def speed_of(config: Any, network: Any, device: torch.device) -> Any:
        usual_speed = usual(config, network, device)
        if device.type != "cuda":
            return usual_speed
        return dataclasses.replace(usual_speed, backend="expanded", cuda_graph=False)

    speed_of.starts_fast = True  # type: ignore[attr-defined]
    private_training.speed_of = speed_of


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    planning = verbs.add_parser("plan")
    for name in ("folders", "trials", "job"):
        planning.add_argument(name, type=Path)
    running = verbs.add_parser("run")
    running.add_argument("job", type=Path)
    running.add_argument("--part", default="1/1")
    running.add_argument("--device", default="auto")
    writing = verbs.add_parser("write")
    writing.add_argument("jobs", type=Path, nargs="+", metavar="JOB")
    asked = parser.parse_args()
    if asked.verb == "plan":
        write_job(asked.folders, asked.trials, asked.job)
    elif asked.verb == "run":
        run(asked.job, asked.part, asked.device)
    else:
        write(asked.jobs)


if __name__ == "__main__":
    main()
