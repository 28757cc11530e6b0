"""Names that stand for classes or functions, imported only when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

from understudy.errors import UserError, did_you_mean
from understudy.evaluation.metric import Metric

# A leakage attacker is one more metric: a class in evaluation/attackers/ and a line here.
METRICS: Mapping[str, str] = MappingProxyType(
    {
        "gen2real": "understudy.evaluation.utility:Gen2RealAccuracy",
        "real2gen": "understudy.evaluation.utility:Real2GenAccuracy",
        "frechet-distance": "understudy.evaluation.fidelity:FrechetDistance",
        "kernel-distance": "understudy.evaluation.fidelity:KernelDistance",
        "precision": "understudy.evaluation.fidelity:Precision",
        "recall": "understudy.evaluation.fidelity:Recall",
        "density": "understudy.evaluation.fidelity:Density",
        "coverage": "understudy.evaluation.fidelity:Coverage",
        "feature-likelihood": "understudy.evaluation.likelihood:FeatureLikelihoodDivergence",
        "feature-likelihood-on-train": "understudy.evaluation.likelihood:FeatureLikelihoodOnTrain",
        "feature-likelihood-gap": "understudy.evaluation.likelihood:FeatureLikelihoodGap",
        "inception-score": "understudy.evaluation.class_scores:InceptionScore",
        "dataset-classifier-score": "understudy.evaluation.class_scores:DatasetClassifierScore",
        "image-reward": "understudy.evaluation.image_reward:ImageReward",
        "membership-density": "understudy.evaluation.attackers.membership:DensityMembership",
        "membership-shadows": "understudy.evaluation.attackers.shadows:ShadowMembership",
        "attribute-accuracy": "understudy.evaluation.attackers.attributes:AttributeAccuracy",
        "attribute-balanced-accuracy": (
            "understudy.evaluation.attackers.attributes:AttributeBalancedAccuracy"
        ),
        "attribute-auroc-scores": (
            "understudy.evaluation.attackers.attributes:AttributeScoreRanking"
        ),
        "attribute-auroc-labels": (
            "understudy.evaluation.attackers.attributes:AttributeLabelRanking"
        ),
        "attribute-advantage": "understudy.evaluation.attackers.attributes:AttributeAdvantage",
        "closest-record": "understudy.evaluation.attackers.proximity:ClosestRecord",
        "neighbour-ratio": "understudy.evaluation.attackers.proximity:SharpestRatio",
        "identical-records": "understudy.evaluation.attackers.proximity:IdenticalRecords",
    }
)

_ATTACKERS = "understudy.evaluation.attackers."

METRIC_GROUP = "understudy.metrics"
"""The entry point group through which an installed package adds its own metrics."""

EXTRACTORS: Mapping[str, str] = MappingProxyType(
    {
        "inception-v3": "understudy.evaluation.extractors.inception:build",
        "lenet-mnist": "understudy.evaluation.extractors.lenet:build",
        "squeezenet": "understudy.evaluation.extractors.squeezenet:build",
        "random-conv": "understudy.evaluation.extractors.random_conv:build",
    }
)

CLASSIFYING_EXTRACTORS = frozenset({"inception-v3", "lenet-mnist"})
"""Extractors that give class probabilities too."""

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
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{kind} {name!r} cannot be had from {table[name]}: {error}.") from error


def metric_targets() -> Mapping[str, str]:
    """Where each metric lives, the built-in ones and those of installed packages.

    A name is taken once: a package that offers one that is taken is refused, not preferred.
    """
    found = dict(METRICS)
    for point in entry_points(group=METRIC_GROUP):
        target = point.value.replace(" ", "")
        taken = found.setdefault(point.name, target)
        if taken != target:  # one package can be visible twice on the path
            source = point.dist.name if point.dist is not None else "an installed package"
            raise UserError(
                f"metric {point.name!r} of {source} ({target}) has the same name as {taken}; "
                "it must be renamed by its author, or uninstalled."
            )
    return MappingProxyType(found)


def is_attack(name: str) -> bool:
    """Whether a metric of this name attacks a release, which its home tells without an import."""
    return METRICS.get(name, "").startswith(_ATTACKERS)


def metric_class(name: str) -> type[Metric]:
    """The metric of this name, built in or installed; what is no metric is refused."""
    found = resolve("metric", name, metric_targets())
    if not (isinstance(found, type) and issubclass(found, Metric)):
        raise UserError(f"metric {name!r} must be a class derived from Metric, not {found!r}.")
    declared = ("name", "direction", "bounds", "unit", "needs")
    missing = [attribute for attribute in declared if not hasattr(found, attribute)]
    if missing:
        raise UserError(f"metric {name!r} does not declare {', '.join(missing)}.")
    return found


def only_attacks(names: Sequence[str]) -> bool:
    """Whether there are metrics here, and all of them attack a release."""
    return bool(names) and all(is_attack(name) for name in names)
