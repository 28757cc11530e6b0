"""Made-up runs to report on. The pictures are scikit-learn's public digits."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from understudy.data.records import Images
from understudy.data.schema import Attribute, Schema
from understudy.report.model import Curve, OwnerData, ReportData


def chained(bodies: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Ledger lines in the shared format, each with the hash of the one before."""
    lines: list[dict[str, Any]] = []
    previous = "0" * 64
    for index, (kind, body) in enumerate(bodies):
        line = {"index": index, "kind": kind, "body": dict(body), "previous": previous}
        canonical = json.dumps(line, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(canonical.encode()).hexdigest()
        lines.append({**line, "hash": previous})
    return lines


def released_ledger() -> list[dict[str, Any]]:
    """What of `gan_ledger` is released: all that was planned, in one piece each."""
    plan = {"format": "understudy-ledger/2", **gan_ledger()[0]["body"]}
    blocks = [
        *_block(0, "label counts", 1, "commit"),
        *_block(1, "discriminator", 600, "commit"),
    ]
    return chained([("plan", plan), *blocks, ("close", {})])


def gan_ledger(steps: int = 600, block: int = 25) -> list[dict[str, Any]]:
    """A histogram and a DP-SGD run with two voids along the way."""
    plan = {
        "ident": "5f" * 16,
        "relation": "add-or-remove one unit",
        "accountant": "PLD",
        "budget": {"epsilon": 10.0, "delta": 1e-5},
        "epsilon": 9.98712,
        "mechanisms": [
            {"kind": "noisy-histogram", "name": "label counts", "bins": 10, "sigma": 14.2},
            {"kind": "dp-sgd", "name": "discriminator", "steps": steps, "sigma": 0.74},
        ],
    }
    bodies: list[tuple[str, Mapping[str, Any]]] = [("plan", {"plan": plan, "run": {}})]
    bodies += _block(0, "label counts", 1, "commit")
    number = 1
    for i in range(steps // block):
        if i in (4, 15):
            bodies += _block(number, "discriminator", block, "void")
            number += 1
        bodies += _block(number, "discriminator", block, "commit")
        number += 1
    return chained([*bodies, ("close", {})])


def _block(number: int, mechanism: str, uses: int, end: str) -> list[tuple[str, Mapping[str, Any]]]:
    reserve = {"block": number, "mechanism": mechanism, "uses": uses}
    return [("reserve", reserve), (end, reserve if end == "commit" else {"block": number})]


def central_claim(
    ledger: Sequence[Mapping[str, Any]], epsilon: float = 9.98712, steps: int = 600
) -> dict[str, Any]:
    return {
        "format": "understudy-claim/2",
        "statement": [
            f"Central differential privacy with epsilon {math.ceil(epsilon * 1000) / 1000} and "
            "delta 1e-5, per image, not per person.",
            "Adding or removing one image changes what is released by no more than these "
            "figures allow.",
        ],
        "kind": "central",
        "epsilon": epsilon,
        "delta": 1e-5,
        "accountant": "PLD",
        "unit": {"column": None, "words": "per image, not per person"},
        "relation": "add-or-remove one unit",
        "scope": "this release only",
        "assumed_public": [
            "the declared number of images, 1,438",
            "the names of the ten classes",
            "image size 8 × 8, grey",
        ],
        "randomness": {
            "source": "ChaCha20 keyed by the operating system",
            "noise": "float",
            "insecure_seed": False,
        },
        "tuning": {"covered": False, "among": ["the defaults of the method"], "by": "its author"},
        "public_inputs": [],
        "split": "keyed hash of each record: 80% train, 20% test",
        "method": {
            "name": "dp-gan",
            "paper": "Xie, Lin, Wang, Wang, Zhou: Differentially Private Generative Adversarial "
            "Network, 2018, arXiv:1802.06739",
            "config": {"steps": steps, "batch": 64},
            "changed_for_soundness": [
                "Each image's whole gradient is clipped once, to an L2 norm, instead of the "
                "weights being clipped after the noise.",
                "Batches are Poisson samples, as the accountant assumes.",
            ],
        },
        "ledger": {"head": ledger[-1]["hash"], "length": len(ledger)},
        "spending": [
            {
                "name": "label counts",
                "kind": "noisy-histogram",
                "planned": 1,
                "spent": 1,
                "sigma": 14.2,
                "epsilon_alone": 0.2811,
            },
            {
                "name": "discriminator",
                "kind": "dp-sgd",
                "planned": steps,
                "spent": steps,
                "sigma": 0.7412,
                "epsilon_alone": 9.9213,
            },
        ],
        "versions": {"understudy": "0.1.0", "python": "3.11.7", "torch": "2.11.0", "numpy": "2.4"},
        "records": {"count": 5000, "shape": [1, 8, 8], "schema": {}},
    }


def empirical_claim() -> dict[str, Any]:
    ledger = empirical_ledger()
    claim = central_claim(ledger)
    claim["method"] = {**claim["method"], "name": "copycat", "changed_for_soundness": []}
    return {
        **claim,
        "statement": [
            "No formal privacy guarantee: epsilon is infinite. What was measured is all there is."
        ],
        "kind": "empirical",
        "epsilon": "infinity",
        "spending": [
            {
                "name": "all records",
                "kind": "reveal",
                "planned": 1,
                "spent": 1,
                "sigma": None,
                "epsilon_alone": "infinity",
            }
        ],
    }


def empirical_ledger() -> list[dict[str, Any]]:
    plan = {"budget": {"epsilon": "infinity", "delta": 1e-5}, "epsilon": "infinity"}
    return chained(
        [("plan", {"plan": plan, "run": {}}), *_block(0, "all records", 1, "commit"), ("close", {})]
    )


def digit_samples(per_class: int = 8) -> Images:
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = np.concatenate([np.flatnonzero(digits.target == c)[:per_class] for c in range(10)])
    pixels = np.clip(digits.images[chosen] * 16, 0, 255).astype(np.uint8)[:, None]
    schema = Schema((Attribute("digit", tuple(str(c) for c in range(10))),), label="digit")
    return Images(pixels, {"digit": digits.target[chosen].astype(np.int64)}, schema)


def noise_samples(classes: int, per_class: int, channels: int, height: int, width: int) -> Images:
    """Pictures that no format can compress: the worst case for a file's size."""
    shape = (classes * per_class, channels, height, width)
    pixels = np.random.default_rng(7).integers(0, 256, shape, dtype=np.uint8)
    labels = np.repeat(np.arange(classes), per_class)
    schema = Schema((Attribute("kind", tuple(f"class {c}" for c in range(classes))),), label="kind")
    return Images(pixels, {"kind": labels}, schema)


def example_data() -> ReportData:
    ledger = released_ledger()
    return ReportData(
        title="Digits, DP-GAN",
        claim=central_claim(ledger),
        ledger=ledger,
        samples=digit_samples(),
        settings={
            "dataset": "digits",
            "method": "dp-gan",
            "epsilon": 10.0,
            "delta": 1e-5,
            "count": 1438,
            "unit": None,
            "seed": 0,
            "config": {
                "steps": 600,
                "batch": 64,
                "clip": 1.0,
                "generator_width": 64,
                "learning_rate": 0.0002,
                "ema": True,
            },
        },
        digest="b5d4045c3f466fa91fe2cc6abe79232a1a57cdf104f7a26e716e0a1e2789df78",
    )


def _result(metric: str, variant: str, value: float | None, **rest: Any) -> dict[str, Any]:
    base = {
        "metric": metric,
        "variant": variant,
        "value": value,
        "low": None,
        "high": None,
        "confidence": 0.95,
        "direction": "higher",
        "unit": "fraction",
        "bounds": [0.0, 1.0],
        "seeds": [0, 1, 2],
        "reference": None,
        "chance": None,
        "extractor": None,
        "status": "ok",
        "reason": None,
    }
    return {**base, **rest}


def example_metrics() -> dict[str, Any]:
    failed = {"status": "failed", "reason": "the classifier saw only one class"}
    far = {"direction": "lower", "unit": "", "bounds": [0.0, None]}
    return {
        "format": "understudy-metrics/1",
        "protocol": {
            "name": "reduced",
            "stamp": "fewer epochs and seeds than the standard; not for comparison",
            "epochs": 5,
            "selection": "held-out synthetic data",
        },
        "dataset": "digits, test part",
        "synthetic_count": 5000,
        "rows": [
            _result(
                "gen2real accuracy",
                "mlp",
                0.8123,
                low=0.7842,
                high=0.8391,
                reference=0.9689,
                chance=0.1022,
            ),
            _result(
                "gen2real accuracy",
                "cnn",
                0.8466,
                low=0.8201,
                high=0.8720,
                reference=0.9838,
                chance=0.1022,
            ),
            _result("real2gen accuracy", "cnn", None, chance=0.1, **failed),
            _result("precision", "random-conv", 0.7144, low=0.6911, high=0.7360, reference=0.8731),
            _result("recall", "random-conv", 0.4123, low=0.3902, high=0.4377, reference=0.8702),
            _result("FD[random-conv]", "", 31.42, low=29.8, high=33.4, reference=2.114, **far),
            _result(
                "KD[random-conv]", "", 0.00412, low=0.0035, high=0.0047, reference=0.00001, **far
            ),
        ],
    }


def example_owner() -> OwnerData:
    steps = np.arange(0, 600, 5)
    noise = np.random.default_rng(3).normal(size=(2, len(steps)))
    return OwnerData(
        own_ledger=gan_ledger(),
        metrics=example_metrics(),
        curves=(
            Curve(
                "Discriminator loss",
                steps.tolist(),
                (0.69 + 0.5 * np.exp(-steps / 120) + 0.03 * noise[0]).tolist(),
                "step",
                "mean loss",
            ),
            Curve(
                "Clipped gradients",
                steps.tolist(),
                (0.62 + 0.3 * np.tanh(steps / 300) + 0.02 * noise[1]).tolist(),
                "step",
                "fraction of records",
            ),
        ),
        timings={"load": 0.42, "calibrate": 2.31, "fit": 31.7, "sample": 1.12, "evaluate": 18.4},
        counts={"training records": 1441, "test records": 356},
        warnings=("3 synthetic images lie closer to a training image than any test image does.",),
        notes=("No duplicates were found.",),
        hardware={"processor": "2 cores", "accelerator": "none"},
    )
