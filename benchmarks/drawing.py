"""How fast a fitted denoiser draws images, compiled and as it stands.

    python benchmarks/drawing.py --device cuda --out FOLDER           (torch and numpy only)
    python benchmarks/drawing.py --evidence FOLDER [--commit HEAD]    (where git is)

The network is the engine's for 28x28; Heun's sampler takes 39 passes an image. Weights are random,
which costs as much as trained ones do. Images of either way are compared: bfloat16 rounds, and
forty passes let that grow, so a few grey levels of 256 may lie between them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from copied_tree import at_home, tree_digest
from engine_networks import NETWORKS

from understudy.bench.evidence.provenance import Provenance
from understudy.data.schema import Attribute, Schema
from understudy.methods.diffusion import synthesizer
from understudy.methods.diffusion.denoising import Preconditioning
from understudy.methods.diffusion.network import NetworkSpec
from understudy.methods.diffusion.samplers import SamplerSettings
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer

DRAWING = SamplerSettings("heun", 20)
FILE = "drawing.json"
WAYS = {"as it stands": math.inf, "compiled": 0}
"""By name: from how many passes on it would be compiled."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--network", choices=NETWORKS, default="28")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--out", type=Path, help="measure here, and write into this folder")
    parser.add_argument("--evidence", type=Path, help="make evidence of a folder that was written")
    parser.add_argument("--commit", default="HEAD", help="whose files were measured")
    parser.add_argument("--store", type=Path, help="where evidence goes; else the repository")
    asked = parser.parse_args()
    if asked.evidence is not None:
        _evidence(asked)
        return
    found = measure(asked)
    print(json.dumps({k: v for k, v in found.items() if k != "provenance"}, indent=1))
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / FILE).write_text(json.dumps(found, indent=1))


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    device, said = torch.device(asked.device), Saying()
    fitted = made_up(asked.network)
    fitted.work_on(device, said)
    rows, images = {}, {}
    for way, least in WAYS.items():
        synthesizer._WORTH_COMPILING = least  # type: ignore[assignment]
        first = _seconds(lambda: fitted.sample(synthesizer._ROWS_AT_ONCE[device.type], seed=1))
        start = time.perf_counter()
        images[way] = fitted.sample(asked.images, seed=0).features.astype(int)
        seconds = time.perf_counter() - start
        rows[way] = {
            "passes_per_second": asked.images * DRAWING.passes / seconds,
            **{"seconds": seconds, "first_batch_seconds": first},
        }
    apart = np.abs(images["compiled"] - images["as it stands"])
    return {
        **{"network": asked.network, "images": asked.images, "passes an image": DRAWING.passes},
        **{"ways": rows, "said": said.lines},
        "grey levels apart": {"mean": float(apart.mean()), "most": int(apart.max())},
        "peak_gigabytes": _peak(device),
        **{"code": tree_digest(), "provenance": Provenance.read().to_json()},
    }


class Saying:
    """Progress that keeps what is said: whether something could not be compiled."""

    def __init__(self) -> None:
        from understudy.progress import Silent

        self.lines: list[str] = []
        self.task = Silent().task

    def say(self, line: str) -> None:
        self.lines.append(line)


def made_up(name: str) -> DiffusionSynthesizer:
    torch.manual_seed(0)
    unet = NETWORKS[name]
    spec = NetworkSpec((unet.channels, unet.image_size, unet.image_size), unet)
    network = spec.build()
    torch.nn.init.normal_(network.leave.weight, std=0.02)  # type: ignore[union-attr,arg-type]
    schema = Schema((Attribute("label", tuple("0123456789")),), label="label")
    return DiffusionSynthesizer(spec, network, Preconditioning(), DRAWING, schema)


def _seconds(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _peak(device: torch.device) -> float | None:
    return torch.cuda.max_memory_reserved(device) / 1e9 if device.type == "cuda" else None


def _evidence(asked: argparse.Namespace) -> None:
    from measure import EVIDENCE

    from understudy.bench.evidence.evidence import write_measurement

    found = json.loads((asked.evidence / FILE).read_text())
    write_measurement(
        asked.store or EVIDENCE,
        "drawing",
        provenance=at_home(found.pop("provenance"), found.pop("code"), asked.commit),
        command="python benchmarks/drawing.py --device cuda --out FOLDER",
        config={"network": NETWORKS[found["network"]].to_json(), "drawing": DRAWING.to_json()},
        seeds=[0],
        seconds={way: row["seconds"] for way, row in found["ways"].items()},
        peak_gigabytes=found["peak_gigabytes"],
        result=found,
    )


if __name__ == "__main__":
    main()
