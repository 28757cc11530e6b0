"""Plant every known fault, and keep which were caught; beside it, which there were before.

    python benchmarks/planted_faults.py [--before COMMIT] [--jobs 2]

Each fault is planted alone, and the test that is meant for it must fail with the words meant for
it. `before` lists the faults of an earlier commit that cannot be written any more; why is told in
docs/decisions. About ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = "tests/mutants/faults"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default="f646ab2", help="a commit to compare with")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    before, start = names_at(asked.before), time.time()
    caught = planted(asked.jobs)
    for name, found in caught.items():
        print("caught  " if found else "SURVIVED", name)
    keep(asked.before, before, caught, time.time() - start)


def names_at(commit: str) -> list[str]:
    """The names of all faults that stood in the repository then."""
    return [fault["name"] for path in _listed(commit) for fault in yaml.safe_load(path)]


def _listed(commit: str) -> list[str]:
    listed = _git("ls-tree", "-r", "--name-only", commit, "--", FOLDER).splitlines()
    return [_git("show", f"{commit}:{name}") for name in listed]


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return done.stdout


def planted(jobs: int) -> dict[str, bool]:
    """Every fault by name, and whether its test saw it."""
    sys.path.insert(0, str(REPOSITORY))
    from tests.mutants.__main__ import plant_all
    from tests.mutants.faults import all_faults
    from tests.mutants.trials import preload

    preload()  # before anything of ours is imported, which could not be patched then
    return {verdict.fault.name: verdict.caught for verdict in plant_all(all_faults(), jobs)}


def keep(commit: str, before: list[str], caught: dict[str, bool], seconds: float) -> None:
    from measure import EVIDENCE

    from understudy.bench.evidence.evidence import Provenance, write_measurement

    write_measurement(
        EVIDENCE,
        "planted-faults",
        provenance=Provenance.read(REPOSITORY),
        command="python benchmarks/planted_faults.py",
        config={"before": _git("rev-parse", commit).strip()},
        seeds=[],
        seconds={"plant": seconds},
        peak_gigabytes=None,
        result={
            "planted": len(caught),
            "caught": sum(caught.values()),
            "survived": sorted(name for name, found in caught.items() if not found),
            "before": len(before),
            "gone": sorted(set(before) - caught.keys()),
            "new": sorted(caught.keys() - set(before)),
            "kept": {name: caught[name] for name in sorted(caught.keys() & set(before))},
        },
    )


if __name__ == "__main__":
    main()
