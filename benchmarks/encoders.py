"""The two public encoders of the filter benchmarks: taught once, read raw, and kept.

    python benchmarks/encoders.py FOLDER

FOLDER gets `mnist.safetensors` and `adult.safetensors`; a file that is there is taken as it is,
and its digest is written down. Readers are trained on latents of the training part and asked
about the test part. One evidence file; about two minutes of one core to teach both.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from latent_readings import (
    accuracies,
    encoded,
    encoded_mnist,
    figures,
    papers,
    readers_of,
)
from measure import EVIDENCE, REPOSITORY, understudy

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.data.load import load
from understudy.encoders.encoder import Encoder
from understudy.encoders.file import read_encoder
from understudy.evaluation.filtering import View

EPOCHS = {"mnist": 12, "adult": 20}
SEED = 0
READERS = ("linear", "mlp-15", "mlp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    provenance = Provenance.read(REPOSITORY)
    folder.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"published": [*papers("1"), *papers("2")]}
    seconds = {}
    for name in EPOCHS:
        path = folder / f"{name}.safetensors"
        seconds[f"teaching, {name}"] = 0.0 if path.exists() else taught(name, path)
        result[name] = measured(name, read_encoder(path))
        for reader in READERS:
            print(f"{name}, {reader}: {accuracies(result[name]['rows'], reader)}", flush=True)
    write_measurement(
        EVIDENCE,
        "encoders",
        provenance=provenance,
        command="python benchmarks/encoders.py FOLDER",
        config={"epochs": EPOCHS, "readers": list(READERS), "0 seconds": "the file was there"},
        seeds=[SEED],
        seconds=seconds,
        peak_gigabytes=None,
        result=result,
    )


def taught(name: str, path: Path) -> float:
    """Teach one encoder as a user would; the seconds that it took."""
    with tempfile.TemporaryDirectory() as home:
        command = ["filter", "init", name, "-o", str(path), "--seed", str(SEED)]
        settings = ["--set", f"epochs={EPOCHS[name]}", "--runs", f"{home}/runs"]
        return round(understudy([*command, *settings, "--device", "cpu"], Path(home)).seconds, 1)


def measured(name: str, encoder: Encoder) -> dict[str, Any]:
    """What is read from raw latents, and how well records come back."""
    data = load(name)
    if name == "mnist":
        raw = encoded_mnist(encoder)
    else:
        raw = View(*(encoded(encoder, data.parts[part]) for part in ("train", "test")))
    roles = {attribute.name: "kept" for attribute in raw.asked.schema.attributes}
    test = data.parts["test"].features
    scale = 255.0 if test.dtype == np.uint8 else 1.0
    error = encoder.decode(raw.asked.features).numpy() - np.asarray(test, np.float32) / scale
    return {
        "digest": encoder.digest,
        "provenance": encoder.provenance.to_json(),
        "rows": figures(readers_of(SEED), raw, raw, roles, READERS),
        "root mean square error of records": float(np.sqrt(np.square(error).mean())),
    }


if __name__ == "__main__":
    main()
