"""What known rates say of runs whose evidence is here, beside what these runs took.

    python benchmarks/recorded_forecasts.py

No run is made. Runs of a processor are held against the rates of two cores, runs of an H200 against
its rates, without a probe: the machines of old runs cannot be asked. Only `fit` is compared: older
versions drew images on a processor, wherever they were fitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence.evidence import write_measurement
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.suite.cell import Cell
from understudy.bench.work.forecast import declared_facts
from understudy.data.catalog import catalog
from understudy.methods.config import build_config
from understudy.methods.contract import Forecasting
from understudy.methods.machines import CPU, GPU, machine
from understudy.methods.registry import get_method


def recorded() -> Iterator[dict[str, Any]]:
    for path in sorted(EVIDENCE.glob("*-epsilon*.json")):
        evidence = json.loads(path.read_text(encoding="utf-8"))
        config, hardware = evidence["config"], evidence["phases"]["fit"]["hardware"]
        kind = GPU if "gpus" in hardware else CPU
        cell = Cell(config["method"], config["dataset"], config["epsilon"])
        method = get_method(cell.method)
        assert isinstance(method, Forecasting)
        facts = declared_facts(cell, catalog()[cell.dataset], method)
        settings = build_config(method.Config, config["settings"])
        loops = [loop for loop in method.loops(settings, facts, 1) if loop.setting is not None]
        forecast, took = machine(kind).pace(loops).seconds(loops), evidence["seconds"]["fit"]
        row = {"run": evidence["name"], "machine": kind, "forecast": forecast, "took": took}
        yield {**row, "ratio": forecast / took}


def main() -> None:
    rows = list(recorded())
    for row in rows:
        print(json.dumps(row))
    worst = {
        kind: max(max(r["ratio"], 1 / r["ratio"]) for r in rows if r["machine"] == kind)
        for kind in sorted({row["machine"] for row in rows})
    }
    write_measurement(
        EVIDENCE,
        "forecasts-recorded",
        provenance=Provenance.read(REPOSITORY),
        command="python benchmarks/recorded_forecasts.py",
        config={"rates": "understudy/methods/machines.json"},
        seeds=[0],
        seconds={"runs": sum(row["took"] for row in rows)},
        peak_gigabytes=None,
        result={"runs": rows, "off by at most": worst},
    )


if __name__ == "__main__":
    main()
