"""What a device sends without trusting anybody: latents with noise, labels randomised.

The device has no door and no ledger of ours; what it sends is fixed by this value and the secret
noise alone, so the claim is local: per record, replace-one, never composed with a central one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from understudy.data.records import Array, Records
from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.privacy.accounting.accountants import local_price
from understudy.privacy.local.gaussian import LocalNoise
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import LocalGaussian
from understudy.privacy.plan.mechanisms import LocalLabels, LocalRelease, Mechanism
from understudy.privacy.plan.plan import LOCAL_RELATION, Budget, Plan


@dataclass(frozen=True)
class LocalClaim:
    """What is promised of one record, and of one user with several.

    epsilon, delta: of one record's latents and labels together, under replacing the record.
    user_epsilon: the same under replacing all `records_per_user` records of one user.
    assumed_public: labels that leave as they are, because they were declared public.
    """

    epsilon: float
    delta: float
    records_per_user: int
    user_epsilon: float
    assumed_public: tuple[str, ...]
    accountant: str


@dataclass(frozen=True)
class LocalChannel:
    """The Gaussian mechanism on latents, with k-ary randomised response on labels.

    Guarantee, per record under replace-one. Latents are clipped to L2 norm `radius`, so two
    records differ by at most `2 * radius`; Gaussian noise of `sigma * 2 * radius`, sigma the
    analytic multiplier for (`epsilon`, `delta`), is added to every coordinate. A label in
    `label_epsilons` leaves through randomised response with that epsilon (and delta 0). All of
    it composes by addition: a record's price is `epsilon` plus its labels'. Labels in
    `public_labels` leave as they are and are in no price; every other attribute stays behind.
    Neither noise nor clipping depends on the records sent.
    """

    radius: float
    epsilon: float
    delta: float
    label_epsilons: Mapping[str, float] = field(default_factory=dict)
    public_labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise UserError(f"radius must be a positive number, not {self.radius!r}.")
        both = sorted(set(self.label_epsilons) & set(self.public_labels))
        if both:
            raise UserError(f"label {both[0]!r} is either randomised or public, not both.")
        for name, epsilon in self.label_epsilons.items():
            if not (math.isfinite(epsilon) and epsilon > 0):
                raise UserError(
                    f"the epsilon of label {name!r} must be a positive number, not {epsilon!r}; "
                    "to send nothing of it, leave it out."
                )
        _ = self.noise_level  # refuses an epsilon or delta that is none

    @property
    def noise_level(self) -> LocalNoise:
        return LocalNoise.for_budget(self.radius, self.epsilon, self.delta)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on every coordinate."""
        return self.noise_level.sigma * 2 * self.radius

    def release(self, records: Records, noise: NoiseSource) -> Records:
        """What leaves the device; see the class for the guarantee, which holds for one call.

        Sending a record twice costs twice: count it in `records_per_user`.
        """
        schema = self.schema_of(records)
        clipped = self.noise_level.clipped(records).double()
        drawn = noise.normal(clipped.shape, dtype=torch.float64)
        features = (clipped + self.deviation * drawn).float().numpy()
        columns: dict[str, Array] = {
            name: randomised_response(
                records.attributes[name],
                len(records.schema.attribute(name).classes),
                epsilon,
                noise,
            )
            for name, epsilon in self.label_epsilons.items()
        }
        columns |= {name: records.attributes[name] for name in self.public_labels}
        return Records(features, {name: columns[name] for name in schema.names}, schema)

    def schema_of(self, records: Records) -> Schema:
        """The labels that leave of these records; refuses what cannot be sent.

        Guarantee: looks at types, shapes and names, at no value of any record.
        """
        if records.is_images:
            raise UserError("a local channel sends latents; encode the images first.")
        sent = (*self.label_epsilons, *self.public_labels)
        for name in sent:
            records.schema.attribute(name)  # names the nearest one if there is none
            if records.attributes[name].ndim != 1:
                raise UserError(f"label {name!r} holds probabilities; a local channel sends codes.")
        return Schema(tuple(a for a in records.schema.attributes if a.name in sent))

    def plan(self) -> Plan:
        """A new plan of one use of this channel, for the account book of whoever sends.

        Guarantee: its events are all that `release` does to a record, priced under replace-one;
        labels declared public are in no event.
        """
        level = self.noise_level
        planned: list[Mechanism] = [LocalRelease("latents", self.radius, level.sigma)]
        planned += [LocalLabels(f"label {n}", e) for n, e in sorted(self.label_epsilons.items())]
        cost = local_price([e for m in planned for e in m.events(m.uses)], self.delta)
        return Plan(
            Budget(cost.epsilon, self.delta),
            tuple(planned),
            cost.epsilon,
            cost.accountant,
            Plan.new_ident(),
            LOCAL_RELATION,
        )

    def claim(self, records_per_user: int = 1) -> LocalClaim:
        """What may be said of one record, and of a user who sends so many.

        The user's latents are one Gaussian release whose sensitivity is sqrt(records) larger,
        priced exactly; labels add up.
        """
        if records_per_user < 1:
            raise UserError(f"records_per_user must be at least 1, not {records_per_user}.")
        labels = math.fsum(self.label_epsilons.values())
        sigma = self.noise_level.sigma
        cost = local_price([LocalGaussian(sigma, records_per_user)], self.delta)
        return LocalClaim(
            self.epsilon + labels,
            self.delta,
            records_per_user,
            cost.epsilon + records_per_user * labels,
            self.public_labels,
            cost.accountant,
        )


def randomised_response(
    codes: Array, classes: int, epsilon: float, noise: NoiseSource
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Each code kept with probability e^epsilon / (e^epsilon + classes - 1), else another.

    Guarantee, per record under replace-one: no answer is more than e^epsilon times as likely
    under one code as under another: epsilon-private, delta 0. With probability
    classes / (e^epsilon + classes - 1), rounded up, the answer is uniform over all classes.
    """
    if classes < 2:
        return np.zeros(len(codes), np.int64)
    uniform_share = classes / (math.exp(min(epsilon, 700.0)) + classes - 1)
    lies = noise.bernoulli(len(codes), min(uniform_share, 1.0)).numpy()
    other = noise.integers(len(codes), classes).numpy()
    return np.where(lies, other, np.asarray(codes, np.int64))
