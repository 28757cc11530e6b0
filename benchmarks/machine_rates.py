"""What rounds of the methods' loops take on a machine, from which forecasts are made.

    python benchmarks/machine_rates.py measure OUT.json [--device cpu|cuda]
    python benchmarks/machine_rates.py write KIND OUT.json --name "two processor cores"

The first needs torch and numpy alone: it times a few rounds on random records for networks,
batches and methods of several sizes. The second fits rates to them (a round, a pass, and
multiplications a second, for each kind of loop), writes the evidence `machine-rates-KIND.json`
and enters the rates in `understudy/methods/machines.json`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.data.schema import Attribute, Schema
from understudy.methods.contract import Facts
from understudy.methods.registry import load_method
from understudy.run.choosing.probe import seconds_of_probe
from understudy.run.choosing.trial import Tried, trial

METHODS = {
    "dp-feta": "understudy.methods.diffusion.dp_feta:DPFeta",
    "dp-gan": "understudy.methods.dp_gan:DPGan",
    "dp-merf": "understudy.methods.dp_merf:DPMerf",
}
SAMPLES = 2000
_NETWORKS = ((32, 4, 32, 1), (32, 4, 512, 2), (64, 4, 256, 2), (32, 2, 128, 4), (64, 2, 32, 2))
"""Width, patch, batch and draws: small and large in each, so that rates can be told apart."""

MACHINES = Path("understudy/methods/machines.json")


def cases(device: str) -> Iterator[tuple[str, tuple[int, ...], int, dict[str, Any]]]:
    """Method, shape of images, declared units and settings: from small to large, for the device."""
    small = {"multipliers": (1,), "blocks": (2,), "attention": (0,), "central_side": 8}
    large = {"multipliers": (1, 2), "blocks": (2, 2), "attention": (0,), "central_side": 8}
    units = 3000
    tiny = {"width": 32, "patch": 1, "batch": 512, "multiplicity": 4}
    yield "dp-feta", (1, 8, 8), units, {**small, **tiny, "central_batch": 128}
    for shape in ((1, 28, 28), (3, 32, 32)):
        for width, patch, batch, many in _NETWORKS:
            central = 32 if batch < 100 else 128
            batch, many = (batch, many) if device == "cpu" else (2 * batch, 4 * many)
            network = {"width": width, "patch": patch, "batch": batch, "multiplicity": many}
            yield "dp-feta", shape, units, {**small, **network, "central_batch": central}
        if device != "cpu":
            for width, batch in ((64, 1024), (128, 1024)):
                network = {"width": width, "patch": 2, "batch": batch, "multiplicity": 8}
                exact = {"precision": "bfloat16", "central_batch": 256}
                yield "dp-feta", shape, units, {**large, **network, **exact}
        for batch, width in ((32, 16), (128, 16), (256, 32)):
            yield "dp-gan", shape, units, {"batch": batch, "discriminator_width": width}
        for batch, features in ((200, 1000), (500, 1000), (200, 4000)):
            yield "dp-merf", shape, units, {"batch": batch, "features_per_step": features}


def measure(out: Path, device: str) -> None:
    where, rows = torch.device(device), []
    probe = min(seconds_of_probe(where) for _ in range(5))
    for name, shape, units, settings in cases(device):
        method = load_method(METHODS[name])
        config = dataclasses.replace(method.Config(), **settings)
        facts = Facts(units, {"train": units}, shape, _schema())
        noise = "exact" if name == "dp-merf" else "float"
        begun = time.monotonic()
        pace = trial(Tried(method, config, facts, noise, where, SAMPLES))
        took = time.monotonic() - begun
        loops = method.loops(config, facts, SAMPLES)  # type: ignore[attr-defined]
        for loop in loops:
            row = {**dataclasses.asdict(loop), "seconds": pace.rounds[loop.bar]}
            rows.append({"method": name, "shape": shape, "start": pace.start, "took": took, **row})
            print(json.dumps(rows[-1]), flush=True)
    found = {
        "probe": probe,
        "rows": rows,
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    out.write_text(json.dumps(found, indent=1), encoding="utf-8")


def _schema() -> Schema:
    return Schema((Attribute("label", ("a", "b", "c", "d")),), label="label")


def write(kind: str, measured: Path, name: str) -> None:
    from measure import EVIDENCE, REPOSITORY

    from understudy.bench.evidence.evidence import write_measurement
    from understudy.bench.evidence.provenance import Provenance

    found = json.loads(measured.read_text(encoding="utf-8"))
    rates = fitted(found["rows"])
    write_measurement(
        EVIDENCE,
        f"machine-rates-{kind}",
        provenance=Provenance.read(REPOSITORY),
        command="python benchmarks/machine_rates.py measure OUT.json --device DEVICE",
        config={"samples": SAMPLES, "threads": found["threads"]},
        seeds=[0],
        seconds={"all": sum(row["took"] for row in found["rows"])},
        peak_gigabytes=None,
        result={**found, "rates": rates, "off by at most": _worst(found["rows"], rates)},
    )
    _enter(kind, name, found, rates)


def fitted(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Rates with the least error in the logarithm, none below zero."""
    from scipy.optimize import least_squares

    rates = {}
    for kind in sorted({row["kind"] for row in rows}):
        own = [row for row in rows if row["kind"] == kind]
        parts = np.array([[1.0, r["passes"], r["passes"] * r["multiplications"]] for r in own])
        relative = parts / np.array([row["seconds"] for row in own])[:, None]
        scale = relative.mean(axis=0)

        def off(logs: Any, shares: Any = relative / scale) -> Any:
            return np.log(shares @ np.exp(logs))

        solution = np.exp(least_squares(off, np.full(3, -1.0), bounds=(-30, 10)).x)
        a_round, each, work = solution / scale
        rates[kind] = {"round": a_round, "each": each, "speed": 1 / work}
    return rates


def _worst(rows: list[dict[str, Any]], rates: dict[str, dict[str, float]]) -> dict[str, float]:
    """By kind, the largest factor between rates and what was measured."""
    worst: dict[str, float] = {}
    for row in rows:
        rate = rates[row["kind"]]
        told = rate["round"] + row["passes"] * (
            rate["each"] + row["multiplications"] / rate["speed"]
        )
        factor = max(told / row["seconds"], row["seconds"] / told)
        worst[row["kind"]] = max(worst.get(row["kind"], 1.0), factor)
    return worst


def _enter(kind: str, name: str, found: dict[str, Any], rates: dict[str, Any]) -> None:
    known = json.loads(MACHINES.read_text(encoding="utf-8"))
    starts = sorted(row["start"] for row in found["rows"])
    known[kind] = {
        "name": name,
        "measured": f"benchmarks/evidence/machine-rates-{kind}.json",
        "start": starts[len(starts) // 2],
        "probe": found["probe"],
        "rates": rates,
    }
    MACHINES.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("out", type=Path)
    measuring.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    writing = verbs.add_parser("write")
    writing.add_argument("kind")
    writing.add_argument("measured", type=Path)
    writing.add_argument("--name", required=True)
    asked = parser.parse_args()
    if asked.verb == "measure":
        measure(asked.out, asked.device)
    else:
        write(asked.kind, asked.measured, asked.name)


if __name__ == "__main__":
    main()
