"""What an owner of a small folder gets without choosing anything, beside version 0.1's defaults.

    python benchmarks/small_folders.py FOLDERS --which figures
    python benchmarks/small_folder_figures.py fit FOLDERS WORK [--only things-recommended ...]
    python benchmarks/small_folder_figures.py evaluate FOLDERS WORK [--part 1/2]
    python benchmarks/small_folder_figures.py write FOLDERS WORK [--away OUT]

`fit` makes each release as its owner would, one after the other: dp-merf and dp-gan by the presets
that were version 0.1's defaults, and what `synthesize` takes by itself in ten minutes (`--only`
these while the machine does nothing else); the defaults of dp-gan take hours on two cores, so
they may be fitted by `small_folder_away.py`, whose OUT then goes to `write`. `evaluate` judges each
on pictures from elsewhere. All that `write` says was read from the runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import EVIDENCE, REPOSITORY, understudy
from small_folders import EPSILON, READING

from understudy.bench.evidence.evidence import write_measurement
from understudy.bench.evidence.provenance import Provenance
from understudy.evaluation.protocol import load_protocol
from understudy.run.evaluate import evaluate_run

CHOICES = {
    "dp-merf": ("--method", "dp-merf", "--preset", "default"),
    "dp-gan": ("--method", "dp-gan", "--preset", "default"),
    "recommended": (),
}
METRIC = "gen2real balanced accuracy"


@dataclasses.dataclass(frozen=True)
class Run:
    folder: str
    choice: str

    @property
    def name(self) -> str:
        return f"{self.folder}-{self.choice}"

    def place(self, work: Path) -> Path:
        return work / "runs" / self.name


def runs(only: Sequence[str]) -> Iterator[Run]:
    for folder in READING:
        for choice in CHOICES:
            run = Run(folder, choice)
            if not only or run.name in only:
                yield run


def fit(folders: Path, work: Path, only: Sequence[str]) -> None:
    for run in runs(only):
        release = work / "releases" / run.name
        where = ["-o", str(release), "--runs", str(work / "runs"), "--name", run.name]
        asked = [str(folders / run.folder), "--epsilon", str(EPSILON)]
        given = [*asked, *_words(READING[run.folder]), *CHOICES[run.choice], *where]
        measured = understudy(["synthesize", *given], work / "homes" / run.name)
        found = {"seconds": measured.seconds, "gigabytes": measured.peak_gigabytes}
        (run.place(work) / "measured.json").write_text(json.dumps(found), encoding="utf-8")
        print(f"{run.name}: {measured.seconds:.0f} s", flush=True)


def _words(options: Mapping[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def evaluate(folders: Path, work: Path, part: str) -> None:
    number, of = map(int, part.split("/"))
    protocol = load_protocol("standard").changed({"metrics": ["gen2real"]})
    for run in list(runs(()))[number - 1 :: of]:
        if not (run.place(work) / "measured.json").is_file():
            continue
        test, home = str(folders / f"{run.folder}-elsewhere"), work / "homes" / run.name
        evaluate_run(run.place(work), protocol, test=test, home=home)
        print(run.name, _figures(run, work), flush=True)


def _figures(run: Run, work: Path) -> dict[str, Any]:
    """Balanced accuracy of the release and of real records, by classifier."""
    rows = _read(run, work, "metrics.json")["rows"]
    return {
        row["variant"]: {"synthetic": row["value"], "real": row["reference"], **_ends(row)}
        for row in rows
        if row["metric"] == METRIC
    }


def _ends(row: dict[str, Any]) -> dict[str, float]:
    return {"low": row["low"], "high": row["high"], "chance": row["chance"]}


def _read(run: Run, work: Path, name: str) -> Any:
    return json.loads((run.place(work) / name).read_text(encoding="utf-8"))


def write(folders: Path, work: Path, away: Path | None) -> None:
    done = [run for run in runs(()) if (run.place(work) / "metrics.json").is_file()]
    found = {run.name: _of(run, folders, work) for run in done}
    fitted_away = {} if away is None else _fitted_away(away)
    whole = [folder for folder in READING if f"{folder}-recommended" in found]
    judged = {folder: _judged(folder, found, fitted_away) for folder in whole}
    write_measurement(
        EVIDENCE,
        "small-folders",
        provenance=Provenance.read(REPOSITORY),
        command="python benchmarks/small_folder_figures.py fit FOLDERS WORK",
        config={"epsilon": EPSILON, "metric": METRIC, "choices": CHOICES, "reading": READING},
        seeds=[0],
        seconds={name: one["seconds"] for name, one in found.items()},
        peak_gigabytes=max(one["gigabytes"] for one in found.values()),
        result={"runs": found, "away": fitted_away, "judged": judged},
    )


def _fitted_away(out: Path) -> dict[str, Any]:
    """What `small_folder_away.py` fitted on another machine and judged, by folder and method."""
    found = {}
    for path in sorted(out.glob("*-judged.json")):
        name = path.name.removesuffix("-judged.json")
        told = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        figures = json.loads(path.read_text(encoding="utf-8"))
        found[name] = {"figures": figures, "seconds": told["took"], "device": told["device"]}
    return found


def _of(run: Run, folders: Path, work: Path) -> dict[str, Any]:
    claim = _read(run, work, "claim.json")
    verdict = [
        line.replace(str(folders), "...") for line in _read(run, work, "metrics.json")["verdict"]
    ]
    return {
        **_read(run, work, "measured.json"),
        "method": claim["method"]["name"],
        "settings": claim["method"]["config"],
        "figures": _figures(run, work),
        "verdict": verdict,
    }


def _judged(folder: str, found: dict[str, Any], away: dict[str, Any]) -> dict[str, Any]:
    """By the classifier that learns most from real records, as the verdict judges.

    A default that was not fitted is None, and the better one is then of those that were.
    """
    real = found[f"{folder}-recommended"]["figures"]
    judge = max(real, key=lambda name: real[name]["real"])
    values: dict[str, float | None] = dict.fromkeys(CHOICES)
    for choice in CHOICES:
        if f"{folder}-{choice}" in found:
            values[choice] = found[f"{folder}-{choice}"]["figures"][judge]["synthetic"]
        elif f"{folder}-{choice}" in away:
            values[choice] = away[f"{folder}-{choice}"]["figures"][judge]
    chance, reference = real[judge]["chance"], real[judge]["real"]
    own = found[f"{folder}-recommended"]["figures"][judge]["synthetic"]
    defaults = [v for choice, v in values.items() if choice != "recommended" and v is not None]
    return {
        "judge": judge,
        "real": reference,
        **values,
        "points above the better default": 100 * (own - max(defaults)),
        "share of the gain kept": (own - chance) / (reference - chance),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=("fit", "evaluate", "write"))
    parser.add_argument("folders", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--away", type=Path)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--part", default="1/1")
    asked = parser.parse_args()
    if asked.verb == "fit":
        fit(asked.folders, asked.work, asked.only)
    elif asked.verb == "evaluate":
        evaluate(asked.folders, asked.work, asked.part)
    else:
        write(asked.folders, asked.work, asked.away)


if __name__ == "__main__":
    main()
