"""Whether a GPU computes what the CPU's tests promise: the noise stream, gradients, the clip.

    python benchmarks/gpu_checks.py --out FOLDER          (on the GPU; torch and numpy only)
    python benchmarks/gpu_checks.py --evidence FOLDER [--commit HEAD]     (where git is)

Stream: ChaCha20 and what is drawn from it, bit for bit as on the CPU, and normal values by
their distribution. Replay: gradients of public steps that are replayed beside computed ones,
and the milliseconds of both. Engine, as a release runs it there (compiled, bfloat16), and in
float32: the gradients of a whole micro-batch beside a loop over its records, one at a time, in
float32; the norm of what one record adds to a step's sum beside the clip; and by how much a sum
over a micro-batch moves when its records change places, or one of them its company: what a person
who joins does to the others.

Promised: streams equal; replayed gradients of public steps within 1e-2 of computed ones, replayed
sums of private ones within 1e-3; no record adds more than its clip, or moves the others' sum by
more than 2^-21 clips; gradients within 5e-2 (bfloat16) and 1e-3 (float32, whose products a
GPU rounds to ten bits) of the loop's, by norm, and within 1e-5 in float32 where it may not round
them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from copied_tree import at_home, tree_digest
from engine import Denoise, engine_for, made_up_records
from engine_networks import NETWORKS

from understudy.bench.evidence.provenance import Provenance
from understudy.nets.cuda_graph import Gradients, Inputs, capture_on
from understudy.nets.unet import UNet, UNetSpec
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.row_independence import exact_arithmetic, gradient_of
from understudy.privacy.dpsgd.engine import GradientEngine
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise import chacha
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD

KEY, NONCE, BLOCKS = bytes(range(32)), bytes(range(12)), 3000
DRAWN = 100_000
LEAST_P = 1e-6
CLIP = 1e-3
"""So small that every record is clipped."""

PROMISED = {
    "clip_excess": 0.0,
    "others_moved": 2.0**-21,
    "bfloat16": 5e-2,
    "float32": 1e-3,
    "float32 unrounded": 1e-5,
    "recording": 1e-2,
    "replayed": 1e-3,
}
FILE = "gpu_checks.json"
EVIDENCE = Path(__file__).resolve().parent / "evidence"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="measure here, and write into this folder")
    what.add_argument("--evidence", type=Path, help="make evidence of a folder that was written")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--network", choices=NETWORKS, default="28")
    parser.add_argument("--draws", type=int, default=32)
    parser.add_argument("--records", type=int, default=16, help="how many are added one by one")
    parser.add_argument("--public-rows", type=int, default=256, help="of a public step")
    parser.add_argument(
        "--timed", type=int, default=50, help="public steps to time; 0 beside other work"
    )
    parser.add_argument("--computed", action="store_true", help="private steps are not replayed")
    parser.add_argument("--commit", default="HEAD", help="whose files were measured")
    parser.add_argument("--store", type=Path, help="where evidence goes; else the repository")
    asked = parser.parse_args()
    if asked.evidence is not None:
        _evidence(asked.evidence, asked.store, asked.commit)
        return
    found = measure(asked)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / FILE).write_text(json.dumps(found, indent=1))
    print(json.dumps({k: found[k] for k in ("stream", "recording", "engine", "kept")}, indent=1))


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(asked.device)
    torch.backends.cudnn.benchmark = device.type == "cuda"
    began = time.perf_counter()
    stream = check_stream(device)
    replay = check_replay(device, asked)
    engine = {kind: check_engine(kind, device, asked) for kind in ("bfloat16", "float32")}
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {
        **{"device": name, "network": asked.network, "draws": asked.draws},
        "recorded": not asked.computed,
        **{"stream": stream, "recording": replay, "engine": engine},
        **{
            "promised": PROMISED,
            "kept": kept(device, stream, replay, engine, not asked.computed),
        },
        **{"seconds": seconds, "peak_gigabytes": peak},
        "code": tree_digest(),
        "provenance": Provenance.read().to_json(),
    }


def kept(
    device: torch.device,
    stream: Mapping[str, Any],
    replay: Mapping[str, Any],
    engine: Mapping[str, Mapping[str, Any]],
    captured: bool = True,
) -> bool:
    """Whether every promise is; captured: private steps were to be."""
    good = [
        stream["equal"] and stream["normal_p_value"] > LEAST_P,
        replay["worst_relative_error"] <= PROMISED["recording"],
        replay["recorded"] == (capture_on(device) is not None),
        engine["float32"]["worst_error_unrounded"] <= PROMISED["float32 unrounded"],
    ]
    for kind, row in engine.items():
        good.append(row["clip_excess"] <= PROMISED["clip_excess"])
        good.append(max(row["others_moved"].values()) <= PROMISED["others_moved"])
        good.append(row["worst_relative_error"] <= PROMISED[kind])
        good.append((row["worst_error_replayed"] or 0.0) <= PROMISED["replayed"])
        good.append(row["recorded"] == (captured and capture_on(device) is not None))
    return bool(all(good))


def check_stream(device: torch.device) -> dict[str, Any]:
    """Words and values of one key on both devices, and the distribution of secret ones."""
    words = [chacha.keystream(KEY, NONCE, 5, BLOCKS, where).cpu() for where in ("cpu", device)]
    here, there = NoiseSource.insecure(0), NoiseSource.insecure(0)
    values = {
        "words": torch.equal(*words),
        "uniform": torch.equal(here.uniform(DRAWN), there.uniform(DRAWN, device).cpu()),
        "bernoulli": torch.equal(
            here.bernoulli(DRAWN, 0.1), there.bernoulli(DRAWN, 0.1, device).cpu()
        ),
        "integers": torch.equal(here.integers(DRAWN, 10), there.integers(DRAWN, 10, device).cpu()),
        "discrete gaussian": torch.equal(
            here.discrete_gaussian(DRAWN, 50), there.discrete_gaussian(DRAWN, 50, device).cpu()
        ),
    }
    drawn = NoiseSource().normal(DRAWN, device, torch.float64).cpu().numpy()
    return {
        **{"equal": all(values.values()), "each": values},
        **{"normal_p_value": normal_p_value(drawn), "deviation": float(drawn.std())},
    }


def normal_p_value(values: np.ndarray) -> float:
    """Of the Kolmogorov-Smirnov test against N(0, 1), by its limit for many values."""
    ordered, many = np.sort(values), len(values)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in ordered])
    ranks = np.arange(many + 1) / many
    distance = max(float((ranks[1:] - below).max()), float((below - ranks[:-1]).max()))
    scaled = distance * math.sqrt(many)
    if scaled < 0.2:
        return 1.0  # the series is slow there, and the chance of less is below 1e-12
    terms = (2 * (-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101))
    return min(1.0, max(0.0, sum(terms)))


def check_replay(device: torch.device, asked: argparse.Namespace) -> dict[str, Any]:
    """Gradients of public steps on new inputs each: computed, and replayed."""
    spec = NETWORKS[asked.network]
    network = _awake(spec, device)
    parameters = list(network.parameters())

    def loss(inputs: Inputs) -> torch.Tensor:
        draws = {name: inputs[name] for name in ("level", "noise")}
        batch = Batch(inputs["images"], {"label": inputs["label"]}, draws, "label")
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            return Denoise()([network], batch, {}).mean()

    plain = Gradients(loss, parameters, None, print)
    replayed = Gradients(loss, parameters, capture_on(device), print)
    inputs = [_public_inputs(spec, asked.public_rows, device) for _ in range(3)]
    errors = []
    for each in inputs:
        wanted, found = (_flat(way, each, parameters) for way in (plain, replayed))
        errors.append(float((found - wanted).norm() / wanted.norm()))
    return {
        "recorded": replayed._replay is not None,
        "worst_relative_error": max(errors),
        "milliseconds": {
            name: _milliseconds(way, inputs[0], asked.timed, device)
            for name, way in (("computed", plain), ("replayed", replayed))
            if asked.timed
        },
    }


def _awake(spec: UNetSpec, device: torch.device) -> UNet:
    """A network whose last layer is not zero, so that every layer has a gradient."""
    torch.manual_seed(0)
    network = spec.build()
    with torch.no_grad():
        network.leave.weight.normal_(std=0.02)
    return network.to(device)


def _public_inputs(spec: UNetSpec, rows: int, device: torch.device) -> Inputs:
    shape = (rows, spec.channels, spec.image_size, spec.image_size)
    return {
        "images": torch.rand(shape, device=device),
        "noise": torch.randn(shape, device=device),
        "level": torch.randn(rows, device=device),
        "label": torch.randint(spec.classes, (rows,), device=device),
    }


def _flat(way: Gradients, inputs: Inputs, parameters: list[torch.nn.Parameter]) -> torch.Tensor:
    way(inputs)
    return torch.cat([p.grad.double().reshape(-1) for p in parameters if p.grad is not None])


def _milliseconds(way: Gradients, inputs: Inputs, times: int, device: torch.device) -> float:
    def waited() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    way(inputs)
    start = waited()
    for _ in range(times):
        way(inputs)
    return 1000 * (waited() - start) / times


def check_engine(precision: str, device: torch.device, asked: argparse.Namespace) -> dict[str, Any]:
    """One engine as a session makes it: its gradients, and what one record adds to its sum."""
    spec = NETWORKS[asked.network]
    network = _awake(spec, device)
    count = max(asked.records, 2)
    records = made_up_records(count, spec.channels, spec.image_size)
    mechanism = DPSGD("sgd", 1, rate=0.5, clip=CLIP, sigma=1.0, multiplicity=asked.draws)
    speed = Speed(precision=precision, cuda_graph=not asked.computed)
    expected = 1536.0 if device.type == "cuda" else float(count)
    engine = engine_for(network, mechanism, speed, records, expected)
    engine.run_trials({})
    assert engine._backend is not None
    errors = _errors(engine, asked.draws)
    unrounded = None
    if precision == "float32":
        with unrounded_products():
            unrounded = max(_errors(engine, asked.draws))
    lengths = [
        float(engine.clipped_sum(np.array([number]), {}).total.norm()) / CLIP
        for number in range(asked.records)
    ]
    return {
        **{"backend": engine._backend.name, "precision": precision},
        "recorded": engine._graph is not None,
        "notice": engine.notice,
        **{"rows": engine._rows * asked.draws, "records_compared": len(errors)},
        "worst_relative_error": max(errors),
        "worst_error_unrounded": unrounded,
        "mean_relative_error": sum(errors) / len(errors),
        **{"clip_excess": max(lengths) - 1, "shortest": min(lengths) - 1},
        "others_moved": others_moved(engine, asked.draws),
        "worst_error_replayed": _replayed(engine),
    }


def _replayed(engine: GradientEngine) -> float | None:
    """How far what a replay adds lies from what is computed, all but two records used."""
    if engine._graph is None:
        return None
    trial = engine._subject.random_rows(engine._rows)
    used = engine._first(engine._rows - 2)
    found, wanted = (way(trial, {}, used) for way in (engine._graph, engine._work))
    pairs = zip(found.tensors, wanted.tensors, strict=True)
    return max(float((one - other).norm() / other.norm()) for one, other in pairs)


@contextmanager
def unrounded_products() -> Iterator[None]:
    """Products as float32 has them, by the kernels for which the engine was compiled."""
    places = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [place.allow_tf32 for place in places]
    try:
        for place in places:
            place.allow_tf32 = False
        yield
    finally:
        for place, allowed in zip(places, before, strict=True):
            place.allow_tf32 = allowed


def others_moved(engine: GradientEngine, many: int) -> dict[str, float]:
    """How far, in clips, the sum over the same records with the same draws moves when one more
    comes before them, so that each has another place; and when the last becomes another. Replayed,
    where steps are."""
    rows = engine._rows
    trial, other = engine._subject.random_rows(rows), engine._subject.random_rows(rows, 1)
    later = _joined(other.rows(0, many), trial.rows(0, (rows - 1) * many))
    beside = _joined(trial.rows(0, (rows - 1) * many), other.rows(0, many))

    def sum_of(batch: Batch, first: int) -> torch.Tensor:
        used = engine._first(first + rows - 1) & ~engine._first(first)
        return engine._part(batch, {}, used).clipped.total.clone()

    alone = sum_of(trial, 0)
    return {
        "places": float((sum_of(later, 1) - alone).norm()) / CLIP,
        "company": float((sum_of(beside, 0) - alone).norm()) / CLIP,
    }


def _joined(first: Batch, second: Batch) -> Batch:
    def both(one: Mapping[str, torch.Tensor], two: Mapping[str, torch.Tensor]) -> Any:
        return {name: torch.cat([value, two[name]]) for name, value in one.items()}

    features = torch.cat([first.features, second.features])
    attributes = both(first.attributes, second.attributes)
    return Batch(features, attributes, both(first.draws, second.draws), first.label)


def _errors(engine: GradientEngine, many: int) -> list[float]:
    """Of every record of a full micro-batch, beside its own gradient alone in float32."""
    assert engine._backend is not None
    trial = engine._subject.random_rows(engine._rows)
    _, together = engine._subject.per_example(engine._backend, trial, {})
    found, loss, bound = [], Denoise(), engine.bound
    for record in range(engine._rows):
        alone = trial.rows(record * many, (record + 1) * many)
        with exact_arithmetic():
            value = loss(bound.models, alone, {}).mean()
            exact = gradient_of(value, bound.parameters).double()
        found.append(float((together[record].double() - exact).norm() / exact.norm()))
    return found


def _evidence(folder: Path, store: Path | None, commit: str = "HEAD") -> None:
    from understudy.bench.evidence.evidence import write_measurement

    found = json.loads((folder / FILE).read_text())
    provenance = at_home(found.pop("provenance"), found.pop("code"), commit)
    write_measurement(
        store or EVIDENCE,
        "gpu-checks",
        provenance=provenance,
        command="python benchmarks/gpu_checks.py --out FOLDER"
        + ("" if found["recorded"] else " --computed")
        + ("" if found["recording"]["milliseconds"] else " --timed 0"),
        config={"network": NETWORKS[found["network"]].to_json(), "draws": found["draws"]},
        seeds=[0],
        seconds={"checks": found.pop("seconds")},
        peak_gigabytes=found.pop("peak_gigabytes"),
        result=found,
    )
    print("kept" if found["kept"] else "NOT KEPT", found["device"])


if __name__ == "__main__":
    main()
