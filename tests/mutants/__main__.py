"""Plant every fault, one at a time, and print those that no test saw.

`python -m tests.mutants` (or `make mutants`) first runs every named test as the house is,
where it must pass. Names on the command line choose faults; `--jobs N` runs N at once;
`--slowest` lists what took longest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.mutants.faults import Fault, find_faults
from tests.mutants.trials import Verdict, judge, preload, run_trials


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these faults")
    parser.add_argument("--jobs", type=int, default=2, help="trials at once")
    parser.add_argument(
        "--planted-only", action="store_true", help="trust that the tests pass unpatched"
    )
    parser.add_argument("--slowest", action="store_true", help="list the slowest trials")
    chosen = parser.parse_args(words)
    if chosen.jobs < 1:
        parser.error(f"--jobs must be 1 or more, not {chosen.jobs}.")
    try:
        faults = find_faults(chosen.names)
    except ValueError as error:  # a name or a file of faults that cannot be used
        parser.error(str(error))
    preload()
    unsound = [] if chosen.planted_only else failing_as_it_is(faults, chosen.jobs)
    verdicts = plant_all(faults, chosen.jobs)
    survivors = [v for v in verdicts if not v.caught]
    for test, words in unsound:
        print(f"FAILS WITHOUT A FAULT: {test}\n    {words}")
    if chosen.slowest:
        for verdict in sorted(verdicts, key=lambda v: -v.seconds)[:15]:
            print(f"{verdict.seconds:6.1f} s  {verdict.fault.name}")
    print(f"{len(faults) - len(survivors)} of {len(faults)} planted faults were caught.")
    return 1 if survivors or unsound else 0


def failing_as_it_is(faults: list[Fault], jobs: int) -> list[tuple[str, str]]:
    """Named tests that do not pass on the house as it is: they prove nothing."""
    tests = list(dict.fromkeys(fault.test for fault in faults))
    ended = run_trials([(test, ()) for test in tests], jobs)
    return [(tests[i], o.words[-1500:]) for i, o in ended if o.state != "passed"]


def plant_all(faults: list[Fault], jobs: int) -> list[Verdict]:
    """Every fault with its verdict; a survivor is printed as soon as it is known."""
    verdicts = []
    for number, outcome in run_trials([(f.test, f.edits) for f in faults], jobs):
        verdicts.append(judge(faults[number], outcome))
        if not verdicts[-1].caught:
            print(f"SURVIVOR: {verdicts[-1].fault.name}\n    {verdicts[-1].why}", flush=True)
    return verdicts


if __name__ == "__main__":
    sys.exit(main())
