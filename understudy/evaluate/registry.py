"""Names that stand for classes or functions, imported only when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from understudy.errors import UserError, did_you_mean

# A leakage attacker is one more metric: a class in understudy/evaluate/attackers/ and a line here.
METRICS: Mapping[str, str] = MappingProxyType(
    {
        "gen2real": "understudy.evaluate.utility:Gen2RealAccuracy",
        "real2gen": "understudy.evaluate.utility:Real2GenAccuracy",
        "frechet-distance": "understudy.evaluate.fidelity:FrechetDistance",
        "kernel-distance": "understudy.evaluate.fidelity:KernelDistance",
        "precision": "understudy.evaluate.fidelity:Precision",
        "recall": "understudy.evaluate.fidelity:Recall",
    }
)

EXTRACTORS: Mapping[str, str] = MappingProxyType(
    {
        "inception-v3": "understudy.evaluate.extractors.inception:build",
        "lenet-mnist": "understudy.evaluate.extractors.lenet:build",
        "squeezenet": "understudy.evaluate.extractors.squeezenet:build",
        "random-conv": "understudy.evaluate.extractors.random_conv:build",
    }
)

# What a reader must know before comparing figures made with an extractor.
EXTRACTOR_NOTES: Mapping[str, str] = MappingProxyType(
    {
        "inception-v3": "Inception-v3 of 2015-12-05 in its PyTorch port, which resizes unsmoothed",
        "lenet-mnist": "LeNet-5 trained on MNIST: meant for grey digits; not comparable with FID",
        "squeezenet": "SqueezeNet 1.0, mean of its last fire module: not comparable with FID",
        "random-conv": "random features: comparable only with itself",
    }
)


def check_name(kind: str, name: str, known: Mapping[str, Any]) -> None:
    """Refuse a name that is not known, and offer the nearest."""
    if name not in known:
        raise UserError(f"no {kind} {name!r}; {did_you_mean(name, known)}")


def resolve(kind: str, name: str, table: Mapping[str, str]) -> Any:
    """What a name stands for; its module is imported now."""
    check_name(kind, name, table)
    module, _, attribute = table[name].partition(":")
    return getattr(import_module(module), attribute)
