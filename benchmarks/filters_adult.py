"""The generative filter's Table 2: hiding gender and keeping income on UCI Adult.

    python benchmarks/filters_adult.py ENCODER [--seeds 0,1,2]

ENCODER is an encoder file (`understudy filter init adult`, or `benchmarks/encoders.py`). The
filter works on its latents; VFAE and L-MIFR learn codes of their own from the 102 columns. All
learn from the published training part; readers are trained afresh on what leaves and asked about
the test part. Settings were chosen on a split of the training part alone. One evidence file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from latent_readings import (
    READERS,
    TRAINED_ON,
    encoded,
    figures,
    filtered,
    papers,
    readers_of,
    some,
)
from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence import Provenance, write_measurement
from understudy.data.load import load
from understudy.data.records import Array
from understudy.encoders.encoder import Encoder
from understudy.encoders.file import read_encoder
from understudy.evaluate.filtering import View, parity_row
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.filter import fit_filter
from understudy.filters.game import GameConfig
from understudy.filters.lmifr import LMIFRConfig, fit_lmifr
from understudy.filters.variational import FairEncoder
from understudy.filters.vfae import VFAEConfig, fit_vfae
from understudy.methods.config import config_to_json
from understudy.privacy.noise import NoiseSource

CHOICE = Choice(("gender",), ("income",))
ROLES = {"gender": "hidden", "income": "kept"}
LIMIT = Distortion("kl", 5.0)
LINEAR = GameConfig(steps=600, batch=256, utility_weight=3.0)
NETWORK = GameConfig(
    kind="network",
    hidden=32,
    steps=600,
    batch=256,
    filter_rate=0.005,
    utility_weight=3.0,
)
VFAE = VFAEConfig(mmd_weight=1.0, label_weight=20.0, steps=4000)
LMIFR = LMIFRConfig(most_leakage=0.08, most_information=20.0, steps=4000)
METHODS = ("raw", "linear", "network", "vfae", "lmifr")


@dataclass(frozen=True)
class Adult:
    """Both parts as 102 columns and as latents."""

    encoder: Encoder
    columns: View
    latents: View


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--seeds", default="0,1,2")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    seeds = [int(s) for s in asked.seeds.split(",")]
    provenance = Provenance.read(REPOSITORY)
    adult = loaded(read_encoder(asked.encoder))
    seconds: dict[str, float] = {}
    runs = {str(seed): one_seed(adult, seed, seconds) for seed in seeds}
    summary = {name: table(name, list(runs.values())) for name in METHODS}
    for name, rows in summary.items():
        for metric, values in rows.items():
            print(f"{name}, {metric}: {values}", flush=True)
    write_measurement(
        EVIDENCE,
        "filters_adult",
        provenance=provenance,
        command=f"python benchmarks/filters_adult.py ENCODER --seeds {asked.seeds}",
        config={"encoder": adult.encoder.digest, "readers": list(READERS), "settings": settings()},
        seeds=seeds,
        seconds=seconds,
        peak_gigabytes=None,
        result={"mean": summary, "published": papers("2"), "seeds": runs},
    )


def settings() -> dict[str, Any]:
    named = {"linear": LINEAR, "network": NETWORK, "vfae": VFAE, "lmifr": LMIFR}
    return {name: config_to_json(config) for name, config in named.items()}


def loaded(encoder: Encoder) -> Adult:
    parts = [load("adult").parts[name] for name in ("train", "test")]
    return Adult(encoder, View(*parts), View(*(encoded(encoder, part) for part in parts)))


def one_seed(adult: Adult, seed: int, seconds: dict[str, float]) -> dict[str, Any]:
    """What every method sends, read by every reader; the reference is the raw latents."""
    readers, raw = readers_of(seed), adult.latents
    found = {}
    for name in METHODS:
        start = time.process_time()
        sent = raw if name == "raw" else sent_by(name, adult, seed)
        took = time.process_time() - start
        seconds[name] = round(seconds.get(name, 0.0) + took, 1)
        found[name] = {
            "rows": figures(readers, sent, raw, ROLES),
            "parity": parity_row(readers, sent, raw, "income", "gender", "mlp-15").to_json(),
        }
    return found


def sent_by(name: str, adult: Adult, seed: int) -> View:
    """Both parts as they leave."""
    noise = NoiseSource()
    if name in ("linear", "network"):
        own = some(adult.latents.learned, TRAINED_ON, seed)
        config = LINEAR if name == "linear" else NETWORK
        fitted = fit_filter(own, CHOICE, LIMIT, adult.encoder, config, seed=seed)
        return filtered(fitted, adult.latents, noise)
    fits: dict[str, Callable[[], FairEncoder]] = {
        "vfae": lambda: fit_vfae(adult.columns.learned, CHOICE, VFAE, seed=seed),
        "lmifr": lambda: fit_lmifr(adult.columns.learned, CHOICE, LMIFR, seed=seed),
    }
    coder = fits[name]()
    both = (adult.columns.learned, adult.columns.asked)
    codes: list[Array] = [coder.apply(records, noise).features for records in both]
    return adult.columns.with_features(*codes)


def table(name: str, runs: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """For each figure of the paper's table and each reader: the mean and the deviation."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for rows in run[name]["rows"].values():
            for row in rows:
                if row["unit"] == "fraction":
                    reader = row["variant"].partition(",")[0]
                    values.setdefault(f"{row['metric']}, {reader}", []).append(row["value"])
    return {
        metric: [round(float(np.mean(v)), 3), round(float(np.std(v)), 3)]
        for metric, v in values.items()
    }


if __name__ == "__main__":
    main()
