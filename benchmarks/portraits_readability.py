"""Can the attributes of `portraits` be read, and not just from their colours?

Trains one small convolutional network on all attributes of full portraits, and one linear
model per attribute on 8x8 thumbnails, and writes both accuracies on held-out portraits as
evidence. The promise of DESIGN 4.1: the network above 95% on each attribute, the linear model
at least 10 points worse.

    OMP_NUM_THREADS=1 python benchmarks/portraits_readability.py
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import EVIDENCE, REPOSITORY
from torch import Tensor, nn

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.data.portraits import portraits
from understudy.data.records import Array, Records


@dataclass(frozen=True)
class Training:
    """How the network is trained."""

    epochs: int = 18
    batch: int = 64
    peak_rate: float = 4e-3
    weight_decay: float = 1e-3
    shift: int = 3
    seed: int = 0


class Reader(nn.Module):
    """Four convolutions and one head per attribute."""

    def __init__(self, size: int, classes: Mapping[str, int], width: int = 16) -> None:
        super().__init__()
        widths = (3, width, 2 * width, 4 * width, 6 * width)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
        self.trunk = nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.1))
        found = widths[-1] * (size // 16) ** 2
        self.heads = nn.ModuleDict({name: nn.Linear(found, k) for name, k in classes.items()})

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        found = self.trunk(images)
        return {name: head(found) for name, head in self.heads.items()}


def read_by_network(train: Records, test: Records, how: Training) -> dict[str, float]:
    """Test accuracy per attribute of one network for all attributes."""
    torch.manual_seed(how.seed)
    classes = {a.name: len(a.classes) for a in train.schema.attributes}
    reader = Reader(train.shape[-1], classes).to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(reader.parameters(), weight_decay=how.weight_decay)
    steps = how.epochs * (len(train) // how.batch)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, how.peak_rate, total_steps=steps)
    for _ in range(how.epochs):
        reader.train()
        order = torch.randperm(len(train))[: len(train) // how.batch * how.batch]
        for chosen in order.view(-1, how.batch).numpy():
            answers = reader(_shifted(_images(train, chosen), how.shift))
            loss = torch.stack(
                [
                    nn.functional.cross_entropy(answer, _codes(train, name, chosen))
                    for name, answer in answers.items()
                ]
            ).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rate.step()
    return _accuracies(reader, test)


def read_by_linear_model(train: Records, test: Records, side: int = 8) -> dict[str, float]:
    """Test accuracy per attribute of logistic regression on side x side thumbnails."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seen, unseen = _thumbnails(train, side), _thumbnails(test, side)
    scores: dict[str, float] = {}
    for name in train.schema.names:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        model.fit(seen, train.attributes[name])
        scores[name] = float(model.score(unseen, test.attributes[name]))
    return scores


@dataclass(frozen=True)
class Read:
    """How well each attribute was read, and how long that took."""

    rows: list[dict[str, Any]]
    parts: dict[str, int]
    seconds: dict[str, float]


def measure(count: int, size: int, seed: int, how: Training) -> Read:
    """Draw, read both ways, and put the figures side by side."""
    clock = [time.perf_counter()]
    drawn = portraits(count, size, seed)
    clock.append(time.perf_counter())
    train, test = (
        drawn.select(np.arange(count * 4 // 5)),
        drawn.select(np.arange(count * 4 // 5, count)),
    )
    linear = read_by_linear_model(train, test)
    clock.append(time.perf_counter())
    network = read_by_network(train, test, how)
    clock.append(time.perf_counter())
    rows = [
        {
            "attribute": a.name,
            "classes": len(a.classes),
            "majority": float(np.bincount(test.attributes[a.name]).max() / len(test)),
            "linear_8x8": linear[a.name],
            "network": network[a.name],
            "kept": network[a.name] > 0.95 and network[a.name] - linear[a.name] >= 0.10,
        }
        for a in drawn.schema.attributes
    ]
    spans = dict(zip(("draw", "linear", "network"), np.diff(clock).round(1).tolist(), strict=True))
    return Read(rows, {"train": len(train), "test": len(test)}, spans)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=Training.epochs)
    parser.add_argument("--out", type=Path, default=EVIDENCE, help="the folder of evidence")
    args = parser.parse_args()
    provenance = Provenance.read(REPOSITORY)
    how = Training(epochs=args.epochs)
    found = measure(args.count, args.size, args.seed, how)
    path = write_measurement(
        args.out,
        "portraits_readability",
        provenance=provenance,
        command=" ".join(["python", "benchmarks/portraits_readability.py", *sys.argv[1:]]),
        config={
            "portraits": {"count": args.count, "size": args.size, **found.parts},
            "training": asdict(how),
            "threads": torch.get_num_threads(),
        },
        seeds=[args.seed],
        seconds=found.seconds,
        peak_gigabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        result={"rows": found.rows},
    )
    print(path.read_text())
    return 0 if all(row["kept"] for row in found.rows) else 1


def _images(records: Records, chosen: Array) -> Tensor:
    pixels = torch.from_numpy(records.features[chosen]).float().div_(127.5).sub_(1.0)
    return pixels.contiguous(memory_format=torch.channels_last)


def _codes(records: Records, name: str, chosen: Array) -> Tensor:
    return torch.from_numpy(records.attributes[name][chosen])


def _shifted(images: Tensor, reach: int) -> Tensor:
    """The whole batch moved by a few pixels, edges repeated."""
    if reach == 0:
        return images
    down, across = torch.randint(0, 2 * reach + 1, (2,)).tolist()
    height, width = images.shape[-2:]
    padded = nn.functional.pad(images, (reach,) * 4, mode="replicate")
    return padded[..., down : down + height, across : across + width]


def _accuracies(reader: Reader, test: Records) -> dict[str, float]:
    reader.eval()
    right = dict.fromkeys(test.schema.names, 0)
    with torch.inference_mode():
        for chosen in np.array_split(np.arange(len(test)), max(1, len(test) // 250)):
            for name, answer in reader(_images(test, chosen)).items():
                right[name] += int((answer.argmax(dim=1) == _codes(test, name, chosen)).sum())
    return {name: hits / len(test) for name, hits in right.items()}


def _thumbnails(records: Records, side: int) -> Array:
    """Every image as the means of a side x side grid of tiles."""
    count, channels, height, width = records.features.shape
    tiles = records.features.reshape(count, channels, side, height // side, side, width // side)
    return tiles.mean(axis=(3, 5), dtype=np.float32).reshape(count, -1)


if __name__ == "__main__":
    raise SystemExit(main())
