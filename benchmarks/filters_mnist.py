"""The generative filter's Tables 1 and 4 and its distortion sweep on MNIST.

    python benchmarks/filters_mnist.py ENCODER [--seeds 0,1,2] [--only case-1,case-2,two-users]

ENCODER is an encoder file (`understudy filter init`). Filters are trained on MNIST's training
part; readers are trained afresh on filtered training records and asked about filtered test
records. Settings were explored with a stand-in encoder, whose readings of the test part were
looked at; none was changed after the encoder measured here was seen. One evidence file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import numpy as np
import torch
from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence import Provenance, write_measurement
from understudy.data.load import load
from understudy.data.records import Array, Records, concatenate
from understudy.data.schema import Attribute, Schema
from understudy.evaluate.filtering import (
    Readers,
    View,
    confusion,
    information_row,
    parity_row,
    reading_rows,
)
from understudy.evaluate.protocol import load_protocol
from understudy.filters.choice import Choice, best_achievable
from understudy.filters.distortion import Distortion, noise_within
from understudy.filters.filter import Filter, fit_filter
from understudy.filters.game import GameConfig
from understudy.privacy.accountants import local_price
from understudy.privacy.events import LocalGaussian
from understudy.privacy.noise import NoiseSource

READERS = ("linear", "mlp-15", "mlp")
CIRCLES = (0, 6, 8, 9)
BUDGETS = (0.5, 1.0, 1.5, 3.0, 5.0)
PARTS, TRAINED_ON = 10, 10_000
DELTA = 1e-5

NETWORK = GameConfig(
    kind="network",
    hidden=32,
    head_steps=3,
    filter_rate=0.005,
    head_rate=0.005,
    head_width=64,
    batch=1024,
    steps=600,
)


@dataclass(frozen=True)
class Task:
    """One choice with its settings; `unlisted` is read and in no loss."""

    choice: Choice
    forms: Mapping[str, tuple[GameConfig, Distortion]]
    unlisted: tuple[str, ...] = ()


CASES = {
    "case-1": Task(
        Choice(("digit",), ("circle",)),
        {
            "linear": (GameConfig(utility_weight=3.0), Distortion("kl", 3.0)),
            "network": (replace(NETWORK, utility_weight=2.0), Distortion("kl", 3.0)),
        },
    ),
    "case-2": Task(
        Choice(("at-least-5",), ("odd",)),
        {
            "linear": (GameConfig(utility_weight=1.25), Distortion("kl", 3.0)),
            "network": (replace(NETWORK, recovery_weight=0.6), Distortion("kl", 1.5)),
        },
        ("circle",),
    ),
}
USERS = {
    "user-1": Choice(("at-least-5",), ("odd",)),
    "user-2": Choice(("odd",), ("at-least-5",)),
}


class Encoder(Protocol):
    """What is used of an encoder."""

    @property
    def latent(self) -> int: ...
    @property
    def radius(self) -> float: ...
    @property
    def digest(self) -> str: ...
    def encode(self, records: Any) -> torch.Tensor: ...
    def decode_images(self, latents: Any) -> Any: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--only", default="case-1,case-2,sweep,two-users")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    from understudy.encoders.file import read_encoder

    seeds = [int(s) for s in asked.seeds.split(",")]
    provenance = Provenance.read(REPOSITORY)
    encoder = read_encoder(asked.encoder)
    seconds: dict[str, float] = {}
    result = measure(encoder, encoded_mnist(encoder), seeds, asked.only.split(","), seconds)
    write_measurement(
        EVIDENCE,
        "filters_mnist",
        provenance=provenance,
        command=f"python benchmarks/filters_mnist.py ENCODER --seeds {asked.seeds}",
        config={"encoder": encoder.digest, "readers": list(READERS), "budgets": list(BUDGETS)},
        seeds=seeds,
        seconds=seconds,
        peak_gigabytes=None,
        result=result,
    )


def measure(
    encoder: Encoder,
    raw: View,
    seeds: Sequence[int],
    only: Sequence[str],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Every part that was asked for, printed as it ends."""
    result: dict[str, Any] = {}
    for part in only:
        start = time.perf_counter()
        if part == "two-users":
            result[part] = [two_users(encoder, raw, seed) for seed in seeds]
        elif part == "sweep":
            result[part] = [row for seed in seeds for row in sweep(encoder, raw, seed)]
        else:
            task = CASES[part]
            result[part] = [one_case(encoder, raw, task, seed) for seed in seeds]
            names = Choice(task.choice.private, task.choice.useful + task.unlisted)
            result[f"{part}, lowest possible"] = {
                str(kept): best_achievable(raw.asked, names, kept) for kept in (0.9, 0.95, 1.0)
            }
        seconds[part] = round(time.perf_counter() - start, 1)
        show(part, result[part])
    return result


def encoded_mnist(encoder: Encoder) -> View:
    data = load("mnist")
    return View(*(latents(encoder, data.parts[part]) for part in ("train", "test")))


def latents(encoder: Encoder, images: Records) -> Records:
    """Latents with the four labels of the paper."""
    digit = images.labels.astype(np.int64)
    two = ("no", "yes")
    schema = Schema(
        (
            Attribute("digit", tuple(map(str, range(10)))),
            *(Attribute(name, two) for name in ("at-least-5", "odd", "circle")),
        )
    )
    columns = {
        "digit": digit,
        "at-least-5": (digit >= 5).astype(np.int64),
        "odd": digit % 2,
        "circle": np.isin(digit, CIRCLES).astype(np.int64),
    }
    return Records(encoder.encode(images.features).numpy(), columns, schema)


def readers_of(seed: int) -> Readers:
    return Readers(replace(load_protocol("standard"), seeds=1), seed)


def figures(readers: Readers, sent: View, raw: View, roles: Mapping[str, str]) -> dict[str, Any]:
    """Rows as plain values, by attribute."""
    return {
        name: [r.to_json() for r in reading_rows(readers, sent, raw, name, role, READERS)]
        for name, role in roles.items()
    }


def roles_of(choice: Choice, unlisted: Sequence[str] = ()) -> dict[str, str]:
    named = dict.fromkeys(choice.private, "hidden") | dict.fromkeys(choice.useful, "kept")
    return named | dict.fromkeys(unlisted, "unlisted")


def filtered(fitted: Filter, raw: View, noise: NoiseSource) -> View:
    return raw.with_features(fitted.filtered(raw.learned, noise), fitted.filtered(raw.asked, noise))


def one_case(encoder: Encoder, raw: View, task: Task, seed: int) -> dict[str, Any]:
    """Each form of the filter on one case, with every row of every reader."""
    readers, noise = readers_of(seed), NoiseSource()
    own = raw.learned.select(np.random.default_rng(seed).permutation(len(raw.learned))[:TRAINED_ON])
    found: dict[str, Any] = {}
    for form, (config, limit) in task.forms.items():
        fitted = fit_filter(own, task.choice, limit, encoder, config, seed=seed)
        sent = filtered(fitted, raw, noise)
        hidden, kept = task.choice.private[0], task.choice.useful[0]
        images = [view.decoded(encoder.decode_images) for view in (thinned(sent), thinned(raw))]
        found[form] = {
            "distortion": fitted.measured,
            "distortion on test": fitted.distortion_on(raw.asked),
            "rows": figures(readers, sent, raw, roles_of(task.choice, task.unlisted)),
            "decoded": [
                row.to_json()
                for name, role in roles_of(task.choice, task.unlisted).items()
                for row in reading_rows(readers, *images, name, role, ("cnn",), "images")
            ],
            "information": information_row(sent, raw, hidden, "hidden", seed).to_json(),
            "parity": parity_row(readers, sent, raw, kept, hidden, "mlp-15").to_json(),
            "confusion": confusion(readers.answers(sent, hidden, "mlp-15")).round(4).tolist(),
        }
    return found


def thinned(view: View, most: int = 10_000) -> View:
    """The first records of each part: decoded images take room."""
    parts = [r.select(np.arange(min(most, len(r)))) for r in (view.learned, view.asked)]
    return View(*parts)


def sweep(encoder: Encoder, raw: View, seed: int) -> list[dict[str, Any]]:
    """Case 2 over budgets: the linear filter, and the Gaussian mechanism at equal distortion.

    The mechanism's noise is fixed by the budget and the reference variances; its epsilon is local,
    per record, for latents clipped to the encoder's radius.
    """
    readers, noise, task = readers_of(seed), NoiseSource(), CASES["case-2"]
    roles = roles_of(task.choice, task.unlisted)
    own = raw.learned.select(np.arange(min(TRAINED_ON, len(raw.learned))))
    variances = np.asarray(own.features, np.float64).var(axis=0)
    rows = []
    for budget in BUDGETS:
        limit = Distortion("kl", budget)
        config, _ = task.forms["linear"]
        fitted = fit_filter(own, task.choice, limit, encoder, config, seed=seed)
        deviation = noise_within(limit, variances)
        plain = raw.with_features(
            *(with_noise(r.features, deviation, noise) for r in (raw.learned, raw.asked))
        )
        sigma = deviation / (2 * encoder.radius)
        rows.append(
            {
                "budget": budget,
                "filter": figures(readers, filtered(fitted, raw, noise), raw, roles),
                "gaussian": figures(readers, plain, raw, roles),
                "gaussian local epsilon": local_price([LocalGaussian(sigma)], DELTA).epsilon,
            }
        )
    return rows


def with_noise(features: Array, deviation: float, noise: NoiseSource) -> Array:
    return np.asarray(features + deviation * noise.normal(features.shape).numpy(), np.float32)


def two_users(encoder: Encoder, raw: View, seed: int) -> dict[str, Any]:
    """Table 4: two users hide what the other keeps, eight parts are public and stay raw.

    Readers learn from everything that was sent: both users' filtered parts and the public ones.
    """
    order = np.array_split(np.random.default_rng(seed).permutation(len(raw.learned)), PARTS)
    parts, noise = [raw.learned.select(rows) for rows in order], NoiseSource()
    fitted = {
        name: fit_filter(own, choice, Distortion("kl", 3.0), encoder, NETWORK, seed=seed)
        for (name, choice), own in zip(USERS.items(), parts, strict=False)
    }
    sent = [
        replace(own, features=user.filtered(own, noise))
        for user, own in zip(fitted.values(), parts, strict=False)
    ]
    found: dict[str, Any] = {}
    for number, (name, user) in enumerate(fitted.items()):
        asked = replace(raw.asked, features=user.filtered(raw.asked, noise))
        everything = View(concatenate([*sent, *parts[2:]]), asked)
        alone = View(sent[number], asked)
        found[name] = {
            view_name: figures(readers_of(seed), view, raw, roles_of(USERS[name]))
            for view_name, view in (("all that was sent", everything), ("own part", alone))
        }
    return found


def show(part: str, found: Any) -> None:
    """Mean accuracies over seeds, one line a figure."""
    means: dict[str, list[float]] = {}
    _collect(found, part, means)
    for name, values in sorted(means.items()):
        print(f"{name}: {fmean(values):.3f} ({len(values)} seeds)", flush=True)


def _collect(found: Any, path: str, means: dict[str, list[float]]) -> None:
    if isinstance(found, list):
        for item in found:
            _collect(item, path, means)
    elif isinstance(found, dict) and "metric" in found:
        if str(found["metric"]).endswith(" accuracy") and "balanced" not in found["metric"]:
            means.setdefault(f"{path}: {found['metric']}, {found['variant']}", []).append(
                found["value"]
            )
    elif isinstance(found, dict):
        budget = f" b={found['budget']}" if "budget" in found else ""
        for name, item in found.items():
            _collect(item, f"{path}{budget}/{name}", means)


if __name__ == "__main__":
    main()
