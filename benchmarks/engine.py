"""How fast DP-SGD trains a diffusion network on a GPU, beside the same network's plain step.

    python benchmarks/engine.py measure --network 28 --draws 32 --out FOLDER   (on the GPU)
    python benchmarks/engine.py evidence FOLDER [--commit HEAD]                (where git is)

The first needs torch and numpy only; each call measures one setting in a process of its own
and leaves one JSON file. Promised on an H200, with 32 draws: at 28x28 at least 35,000 passes/s at
no more than 9 GB, on a network of at least the peer's multiply-adds, and at 32x32 at least 29,000;
at most 1.3 times as long as the plain step, compiled and in bfloat16.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from copied_tree import at_home, tree_digest
from engine_networks import NETWORKS, PEER_PARAMETERS, multiply_adds, peer_cost
from torch import nn

from understudy.bench.evidence.provenance import Provenance
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.nets.per_example.compiled import CHANNELS_LAST
from understudy.privacy.door.batch import Batch, make_batch, with_draws
from understudy.privacy.dpsgd.engine import GradientEngine
from understudy.privacy.dpsgd.loss import BoundLoss, Models, Values
from understudy.privacy.dpsgd.models import BoundModels
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD

CLIP, SIGMA = 1.0, 1.0
PATIENCE = 180.0
MICRO_BATCHES, PARTS = 7, ("seconds", "host_seconds")
PROMISED = {
    **{"passes_per_second": 35_000, "passes_per_second at 32x32": 29_000},
    **{"peak_gigabytes": 9, "ratio": 1.3},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    measure = verbs.add_parser("measure", help="one setting, on this machine")
    measure.add_argument("--network", choices=NETWORKS, required=True)
    measure.add_argument("--draws", type=int, default=32)
    measure.add_argument("--step", choices=("dp", "plain"), default="dp")
    measure.add_argument("--rows", type=int, default=0, help="rows a micro-batch; 0: the engine's")
    measure.add_argument("--passes", type=int, default=131_072, help="denoiser passes a step")
    measure.add_argument("--repeats", type=int, default=3)
    measure.add_argument("--backend", default="auto")
    measure.add_argument("--device", default="cuda")
    measure.add_argument("--out", type=Path, required=True)
    measure.add_argument("--turns", type=Path, help="a folder for several that take turns")
    measure.add_argument("--of", type=int, default=1, help="how many take turns")
    measure.add_argument("--profile", action="store_true", help="also what each kernel takes")
    measure.add_argument("--computed", action="store_true", help="without a CUDA graph")
    evidence = verbs.add_parser("evidence", help="what a folder of measurements shows")
    evidence.add_argument("folder", type=Path)
    evidence.add_argument("--commit", default="HEAD", help="whose files were measured")
    evidence.add_argument("--store", type=Path, help="where evidence goes; else the repository")
    asked = parser.parse_args()
    if asked.verb == "measure":
        measured = _measure(asked)
        print(json.dumps(measured))
    else:
        _evidence(asked.folder, asked.commit, asked.store)


@dataclass(frozen=True)
class Denoise:
    """EDM's loss, with its preconditioning for images of this deviation."""

    data: float = 0.5

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        level = torch.exp(1.2 * batch.draws["level"] - 1.2)
        whole = (level**2 + self.data**2).sqrt()
        clean = 2.0 * batch.features - 1.0
        noisy = clean + _each(level) * batch.draws["noise"]
        said = models[0](noisy * _each(1 / whole), level.log() / 4, batch.labels)
        kept, made = self.data**2 / whole**2, level * self.data / whole
        error = (_each(kept) * noisy + _each(made) * said.float() - clean).square()
        return error.flatten(1).mean(dim=1) * (whole / (level * self.data)) ** 2


def _each(values: torch.Tensor) -> torch.Tensor:
    return values[:, None, None, None]


def _measure(asked: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    spec = NETWORKS[asked.network]
    network = spec.build()
    with torch.no_grad():
        network.leave.weight.normal_(std=0.02)
    cost = multiply_adds(network)
    device = torch.device(asked.device)
    network.to(device)
    images = asked.passes // asked.draws
    records = made_up_records(images, spec.channels, spec.image_size)
    steps = {"dp": _dp_step, "plain": _plain_step}
    start = time.perf_counter()
    step, engine = steps[asked.step](network, records, asked, device)
    step(np.arange(min(images, engine._rows)))
    _wait(device)
    ready = time.perf_counter() - start
    with _turn(asked):
        taken = [_seconds(step, np.arange(images), device)[0] for _ in range(asked.repeats)]
        one = np.arange(min(images, engine._rows))
        parts = [_seconds(step, one, device) for _ in range(MICRO_BATCHES)]
        table = _profile(step, np.arange(min(images, engine._rows)), asked) if asked.profile else ""
    found = {
        **{"network": asked.network, "spec": spec.to_json(), "step": asked.step},
        **{"draws": asked.draws, "rows": engine._rows * asked.draws, "passes": asked.passes},
        "parameters": sum(p.numel() for p in network.parameters()),
        "multiply_adds": cost,
        "peer": asdict(peer_cost()),
        "seconds": taken,
        "of_a_micro_batch": {
            name: statistics.median(part[place] for part in parts)
            for place, name in enumerate(PARTS)
        },
        "passes_per_second": asked.passes / statistics.median(taken),
        "peak_gigabytes": _peak(device),
        "ready_after": ready,
        "backend": getattr(engine._backend, "name", "none"),
        "replays": 0 if engine._graph is None else engine._graph.replays,
        "notice": engine.notice,
        "code": tree_digest(),
        "provenance": Provenance.read().to_json(),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    name = f"{asked.network}-{asked.step}-{asked.draws}{'-computed' if asked.computed else ''}"
    (asked.out / f"{name}.json").write_text(json.dumps(found, indent=1))
    if table:
        (asked.out / f"{name}.profile.txt").write_text(table)
    return {k: v for k, v in found.items() if k not in ("provenance", "spec")}


def made_up_records(count: int, channels: int, size: int) -> Records:
    chance = np.random.default_rng(0)
    features = chance.integers(0, 256, (count, channels, size, size), dtype=np.uint8)
    schema = Schema((Attribute("label", tuple(str(n) for n in range(10))),), label="label")
    return Records(features, {"label": chance.integers(0, 10, count)}, schema)


def _dp_step(
    network: nn.Module, records: Records, asked: argparse.Namespace, device: torch.device
) -> tuple[Callable[[np.ndarray], Any], GradientEngine]:
    """As `DPSGDSession.step` does it: clipped sum, noise once, gradients set."""
    engine = _engine(network, records, asked, asked.backend)
    noise, parameters = NoiseSource(), engine.bound.parameters

    def step(chosen: np.ndarray) -> None:
        found = engine.clipped_sum(chosen, {})
        noised = found.total + CLIP * SIGMA * noise.normal(engine.width, device, torch.float64)
        pieces = torch.split(noised.float(), [p.numel() for p in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.reshape(parameter.shape)

    return step, engine


def _plain_step(
    network: nn.Module, records: Records, asked: argparse.Namespace, device: torch.device
) -> tuple[Callable[[np.ndarray], Any], GradientEngine]:
    """The same rows in the same micro-batches, without privacy: gradients of their mean loss."""
    engine = _engine(network, records, asked, "expanded")
    network.to(memory_format=torch.channels_last)
    noise = NoiseSource()
    options = dict(CHANNELS_LAST)
    compiled: Any = torch.compile(Denoise(), dynamic=False, fullgraph=True, options=options)
    size, draws = engine._rows, {"level": (), "noise": records.shape}

    def step(chosen: np.ndarray) -> None:
        for parameter in engine.bound.parameters:
            parameter.grad = None
        for start in range(0, len(chosen), size):
            rows = make_batch(records, chosen[start : start + size], device).repeat(asked.draws)
            batch = with_draws(rows, draws, noise)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                values = compiled([network], batch, {})
            values.sum().backward()

    return step, engine


def _engine(
    network: nn.Module, records: Records, asked: argparse.Namespace, backend: str
) -> GradientEngine:
    mechanism = DPSGD("sgd", 1, rate=0.5, clip=CLIP, sigma=SIGMA, multiplicity=asked.draws)
    speed = Speed(asked.rows, backend, "bfloat16", cuda_graph=not asked.computed)
    return engine_for(network, mechanism, speed, records, float(len(records)))


def engine_for(
    network: nn.Module, mechanism: DPSGD, speed: Speed, records: Records, expected: float
) -> GradientEngine:
    """As a session makes it for `Denoise`."""
    return GradientEngine(
        BoundModels([network]),
        BoundLoss(Denoise()),
        {"level": (), "noise": records.shape},
        mechanism,
        speed,
        records,
        NoiseSource(),
        expected,
    )


def _seconds(
    step: Callable[[np.ndarray], Any], chosen: np.ndarray, device: torch.device
) -> tuple[float, float]:
    """Of a step, and until its host has launched all of it: of one micro-batch, about alike where
    the GPU waits for its host."""
    _wait(device)
    start = time.perf_counter()
    step(chosen)
    launched = time.perf_counter()
    _wait(device)
    return time.perf_counter() - start, launched - start


def _profile(
    step: Callable[[np.ndarray], Any], chosen: np.ndarray, asked: argparse.Namespace
) -> str:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        step(chosen)
    by = "self_cuda_time_total" if asked.device == "cuda" else "self_cpu_time_total"
    return str(seen.key_averages().table(sort_by=by, row_limit=60, max_name_column_width=110))


@contextmanager
def _turn(asked: argparse.Namespace) -> Iterator[None]:
    """Compile side by side; once all are ready, measure one at a time."""
    if asked.turns is None:
        yield
        return
    asked.turns.mkdir(exist_ok=True, parents=True)
    (asked.turns / f"ready-{os.getpid()}").touch()
    give_up = time.monotonic() + PATIENCE
    while len(list(asked.turns.glob("ready-*"))) < asked.of and time.monotonic() < give_up:
        time.sleep(0.2)
    with (asked.turns / "turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _peak(device: torch.device) -> float | None:
    return torch.cuda.max_memory_reserved(device) / 1e9 if device.type == "cuda" else None


def _evidence(folder: Path, commit: str, store: Path | None) -> None:
    from measure import EVIDENCE

    from understudy.bench.evidence.evidence import write_measurement

    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    plain = {f["network"]: f for f in found if f["step"] == "plain"}
    result = [_row(f, plain.get(f["network"])) for f in found if f["step"] == "dp"]
    best = max(result, key=lambda r: (r["draws"] == 32, r["passes_per_second"]))
    assert peer_cost().parameters == PEER_PARAMETERS
    machines = [at_home(f["provenance"], f["code"], commit) for f in found]
    if any(machine != machines[0] for machine in machines):
        raise SystemExit("these measurements are not all of one commit on one machine.")
    write_measurement(
        store or EVIDENCE,
        "engine",
        provenance=machines[0],
        command="python benchmarks/engine.py measure --network NAME --draws N --step STEP "
        "[--computed]",
        config={"networks": {name: NETWORKS[name].to_json() for name in NETWORKS}},
        seeds=[0],
        seconds={
            f"{f['network']} {f['step']} {f['draws']} {f['replays']} replays": statistics.median(
                f["seconds"]
            )
            for f in found
        },
        peak_gigabytes=best["peak_gigabytes"],
        result={"rows": result, "promised": PROMISED, "peer": asdict(peer_cost())},
    )
    for row in result:
        print(row)


def _row(found: dict[str, Any], plain: dict[str, Any] | None) -> dict[str, Any]:
    names = ("network", "draws", "rows", "parameters", "multiply_adds", "passes_per_second")
    more = ("peak_gigabytes", "backend", "replays", "notice", "of_a_micro_batch")
    row = {name: found[name] for name in (*names, *more)}
    if plain is None:
        return row
    ratio = plain["passes_per_second"] / found["passes_per_second"]
    beside = {name: plain[name] for name in ("passes_per_second", "peak_gigabytes")}
    return {**row, "plain": beside, "ratio": ratio}


if __name__ == "__main__":
    main()
