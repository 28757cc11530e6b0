"""What a plan is made of: one file for each mechanism, and what they have in common."""

from understudy.privacy.plan.mechanisms.clipped_aggregate import ClippedAggregate
from understudy.privacy.plan.mechanisms.dp_sgd import DPSGD
from understudy.privacy.plan.mechanisms.ensemble_gradients import EnsembleGradients
from understudy.privacy.plan.mechanisms.ensemble_votes import EnsembleVotes
from understudy.privacy.plan.mechanisms.json_form import (
    check_mechanism,
    mechanism_from_json,
    mechanism_to_json,
)
from understudy.privacy.plan.mechanisms.local_labels import LocalLabels
from understudy.privacy.plan.mechanisms.local_release import LocalRelease
from understudy.privacy.plan.mechanisms.mechanism import EXACT, FLOAT, NOISES, Mechanism
from understudy.privacy.plan.mechanisms.noisy_histogram import NoisyHistogram
from understudy.privacy.plan.mechanisms.noisy_sum import NoisySum
from understudy.privacy.plan.mechanisms.one_of_shards_gradients import OneOfShardsGradients
from understudy.privacy.plan.mechanisms.registry import mechanism_class, mechanism_kinds
from understudy.privacy.plan.mechanisms.reveal import Reveal
from understudy.privacy.plan.mechanisms.stepwise import Stepwise

__all__ = [
    "DPSGD",
    "EXACT",
    "FLOAT",
    "NOISES",
    "ClippedAggregate",
    "EnsembleGradients",
    "EnsembleVotes",
    "LocalLabels",
    "LocalRelease",
    "Mechanism",
    "NoisyHistogram",
    "NoisySum",
    "OneOfShardsGradients",
    "Reveal",
    "Stepwise",
    "check_mechanism",
    "mechanism_class",
    "mechanism_from_json",
    "mechanism_kinds",
    "mechanism_to_json",
]
