"""Membership: was this record among those that the method was fitted on?

Half of the held-out records are the attacker's knowledge of the population; the other half
are strangers, who must not be told from members.
"""

from __future__ import annotations

import numpy as np

from understudy.data.records import Array
from understudy.evaluation.attackers.attack import DistanceAttack, halves, measured
from understudy.evaluation.attackers.auroc import auroc
from understudy.evaluation.attackers.search import Numbers, log_kernel_density, nearest
from understudy.evaluation.case import Case
from understudy.evaluation.metric import Measurement

_MOST_CANDIDATES = 10_000
_BANDWIDTH = 0.25
GUESSING = 0.5


class DensityMembership(DistanceAttack):
    """Members lie where the release is denser than the population.

    The score of a record is the log ratio of two Gaussian kernel densities at it: of the
    synthetic records, and of held-out records as the population (after DOMIAS, van Breugel et
    al. 2023). Both have one bandwidth, a quarter of the median distance between a held-out
    record and the nearest other one: wider kernels would blur a copy into its surroundings.
    The figure is the AUROC of members against strangers; the control lets
    strangers stand for the members. DeLong's interval covers the draw of both, with the
    release as it is.
    """

    name = "membership by density, AUROC"

    def measure(self, case: Case) -> Measurement:
        control, strangers = halves(self.vectors(case, "test"))
        strangers = strangers[:_MOST_CANDIDATES]
        members = self.vectors(case, "train")[:_MOST_CANDIDATES]
        synthetic = self.vectors(case, "synthetic")
        bandwidth = _bandwidth(control, case)

        def score(records: Array) -> Numbers:
            near = log_kernel_density(records, synthetic, bandwidth, device=case.device)
            usual = log_kernel_density(records, control, bandwidth, device=case.device)
            return np.asarray(near - usual)

        of_strangers = score(strangers)
        return measured(
            auroc(score(members), of_strangers).interval,
            reference=auroc(*halves(of_strangers)).value,
            chance=GUESSING,
            seeds=(case.seed,),
        )


def _bandwidth(control: Array, case: Case) -> float:
    """In parts of the median distance to the nearest other record that is not the same."""
    distances = nearest(control, control, device=case.device, within=True).distances
    apart = distances[distances > 0]
    return _BANDWIDTH * float(np.median(apart)) if len(apart) else 1.0
