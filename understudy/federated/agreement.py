"""What users and collector agree on before anything is sent, and the check against it.

The agreement is public and the same for everybody. It is the list of all that may travel: a
user's side sends nothing else, and the collector leaves out whoever sends anything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.data.records import Array
from understudy.data.schema import Attribute, Schema
from understudy.encoders.citation import Citation
from understudy.encoders.encoder import Encoder
from understudy.errors import UserError, did_you_mean
from understudy.federated.contribution import (
    CONTENTS,
    FEATURES,
    GAUSSIAN,
    IMAGES,
    LABEL_PREFIX,
    LATENTS,
    MECHANISMS,
    Contribution,
    Statement,
    read_statement,
)
from understudy.privacy.local.channel import LocalChannel
from understudy.release.leaks import machine_paths, private_columns

MOST_RECORDS = 1_000_000
USUAL_DELTA = 1e-5
_FARTHEST = 100.0
"""Latents farther out than so many radii are garbage: no filter of a sane budget makes them."""
_SHOWN = 10
_MOST_DEVIATIONS, _ROUNDING, _LARGEST = 10.0, 1e-5, 1e30


@dataclass(frozen=True)
class Agreement:
    """The encoder, and what may be sent of records that went through it.

    encoder: the digest of its file, and what it learnt from.
    shape: of one record's features as sent; latents have one number, images three.
    labels: which labels may come along, with their classes.
    mechanisms: how records may have been treated, of "filter" and "gaussian".
    epsilon, delta: with the Gaussian mechanism, the weakest promise that is taken, of a record's
        latents and labels together; infinite and 1 take any.
    radius: of the ball that latents lie in; what the Gaussian mechanism's noise is for.
    most_records: of one user.
    """

    encoder: Citation
    content: str
    shape: tuple[int, ...]
    radius: float
    labels: tuple[Attribute, ...] = ()
    mechanisms: tuple[str, ...] = MECHANISMS
    epsilon: float = math.inf
    delta: float = 1.0
    most_records: int = MOST_RECORDS

    def __post_init__(self) -> None:
        _one_of("content", self.content, CONTENTS)
        for mechanism in self.mechanisms:
            _one_of("mechanism", mechanism, MECHANISMS)
        if not self.epsilon > 0:
            raise UserError(f"epsilon must be above 0, not {self.epsilon!r}.")
        if not 0 < self.delta <= 1:
            raise UserError(f"delta must lie between 0 and 1, not {self.delta!r}.")

    @staticmethod
    def of(
        encoder: Encoder,
        content: str = LATENTS,
        *,
        mechanisms: tuple[str, ...] = MECHANISMS,
        epsilon: float = math.inf,
        delta: float = 1.0,
        most_records: int = MOST_RECORDS,
    ) -> Agreement:
        """Everything that the encoder's file declares may be sent; images only if it makes any."""
        _one_of("content", content, CONTENTS)
        if content == IMAGES and len(encoder.shape) != 3:
            raise UserError("this encoder's records are no images; send latents.")
        return Agreement(
            Citation.of(encoder),
            content,
            encoder.shape if content == IMAGES else (encoder.latent,),
            encoder.radius,
            encoder.schema.attributes,
            mechanisms,
            epsilon,
            delta,
            most_records,
        )

    @staticmethod
    def local(
        encoder: Encoder, content: str, epsilon: float | None, delta: float | None
    ) -> Agreement:
        """One that takes the Gaussian mechanism alone, and no weaker promise than this.

        delta: `USUAL_DELTA` unless given. epsilon: of any size unless given.
        """
        if epsilon is not None and not (math.isfinite(epsilon) and epsilon > 0):
            raise UserError(f"epsilon must be a positive number, not {epsilon!r}.")
        if delta is not None and not 0 < delta < 1:
            raise UserError(f"delta must lie between 0 and 1, not {delta!r}.")
        return Agreement.of(
            encoder,
            content,
            mechanisms=(GAUSSIAN,),
            epsilon=math.inf if epsilon is None else epsilon,
            delta=USUAL_DELTA if delta is None else delta,
        )

    def label(self, name: str) -> Attribute:
        for attribute in self.labels:
            if attribute.name == name:
                return attribute
        names = [a.name for a in self.labels]
        raise UserError(f"label {name!r} is not among those agreed on; {did_you_mean(name, names)}")

    def check_terms(self, statement: Mapping[str, Any], shape: tuple[int, ...]) -> None:
        """Refuse a contribution by what is public of it, before its noise is drawn or paid for.

        shape: of one record's features as they would be sent.
        Guarantee: what passes here and comes from the mechanism that it states passes `check`.
        """
        self._check_terms(read_statement(statement))
        if shape != self.shape:
            raise UserError(
                f"its {self.content} have shape {list(shape)}; {list(self.shape)} was agreed on."
            )

    def check(self, statement: Mapping[str, Any], arrays: Mapping[str, Array]) -> Contribution:
        """The contribution that these make, if all of it was agreed on; else a reason.

        Guarantee: every array is one that the statement lists and the agreement allows, of its
        exact type, shape and range; there is no other.
        """
        said = read_statement(statement)
        self._check_terms(said)
        expected = {FEATURES, *(LABEL_PREFIX + name for name in said.labels)}
        uninvited = sorted(set(arrays) - expected)
        if uninvited:
            raise UserError(f"it holds {uninvited[0]!r}, which was not agreed on.")
        missing = sorted(expected - set(arrays))
        if missing:
            raise UserError(f"it lacks {missing[0]!r}, which it lists.")
        self._check_features(arrays[FEATURES], said)
        columns = {}
        for name in said.labels:
            column = arrays[LABEL_PREFIX + name]
            _check_codes(name, column, said.count, len(self.label(name).classes))
            columns[name] = column
        schema = Schema(tuple(self.label(name) for name in said.labels))
        return Contribution.of(said, arrays[FEATURES], columns, schema)

    def _check_terms(self, said: Statement) -> None:
        if said.encoder.digest != self.encoder.digest:
            wrong, right = said.encoder.digest[:12], self.encoder.digest[:12]
            raise UserError(f"it was made with another encoder ({wrong}, not {right}).")
        if said.encoder != self.encoder:
            raise UserError("it says something else than the encoder's file of what that learnt.")
        if said.content != self.content:
            raise UserError(f"it holds {said.content}; {self.content} were agreed on.")
        if said.mechanism not in self.mechanisms:
            raise UserError(f"the mechanism {said.mechanism!r} was not agreed on.")
        if not 1 <= said.count <= self.most_records:
            raise UserError(f"it has {said.count} records, not 1 to {self.most_records}.")
        for name in said.labels:
            _check_classes(self.label(name), said.classes[name])
            check_sendable(self.label(name))
        if said.channel is not None:
            self._check_channel(said, said.channel)

    def _check_channel(self, said: Statement, channel: LocalChannel) -> None:
        if channel.radius != self.radius:
            raise UserError(
                f"its noise is for radius {channel.radius:g}, not the encoder's {self.radius:g}."
            )
        if {*channel.label_epsilons, *channel.public_labels} != set(said.labels):
            raise UserError("its labels are not those that its mechanism speaks of.")
        promised = channel.claim()
        if promised.epsilon > self.epsilon or promised.delta > self.delta:
            raise UserError(
                f"it promises epsilon {promised.epsilon:g} at delta {promised.delta:g}; at most "
                f"{self._limits()} was agreed on."
            )
        if self._farthest(channel) > _LARGEST:
            raise UserError(f"noise for epsilon {channel.epsilon:g} is too large for float32.")

    def _limits(self) -> str:
        epsilon = [] if math.isinf(self.epsilon) else [f"epsilon {self.epsilon:g}"]
        delta = [] if self.delta == 1 else [f"delta {self.delta:g}"]
        return " and ".join(epsilon + delta)

    def _farthest(self, channel: LocalChannel | None) -> float:
        """How far out latents may lie, by what was declared of them alone.

        A filter's: `_FARTHEST` radii. With Gaussian noise on d coordinates: a record's noise
        exceeds sqrt(d) + 10 deviations with probability under exp(-50), so nobody's sound
        contribution is ever refused.
        """
        if channel is None:
            return _FARTHEST * self.radius
        width = math.sqrt(self.shape[0]) + _MOST_DEVIATIONS
        return self.radius * (1 + _ROUNDING) + channel.deviation * width

    def _check_features(self, features: Array, said: Statement) -> None:
        count = said.count
        wanted = np.dtype(np.float32 if self.content == LATENTS else np.uint8)
        if features.dtype != wanted or features.shape != (count, *self.shape):
            raise UserError(
                f"its {self.content} are {features.dtype} {list(features.shape)}, not "
                f"{wanted} {[count, *self.shape]}."
            )
        if self.content == LATENTS:
            norms = np.linalg.norm(features.astype(np.float64), axis=1)
            if not (norms <= self._farthest(said.channel)).all():
                raise UserError(
                    "its latents are not all finite, or lie farther out than its mechanism can "
                    "take them."
                )

    def to_json(self) -> dict[str, Any]:
        return {
            "encoder": self.encoder.to_json(),
            "content": self.content,
            "shape": list(self.shape),
            "radius": self.radius,
            "labels": [{"name": a.name, "classes": list(a.classes)} for a in self.labels],
            "mechanisms": list(self.mechanisms),
            "epsilon": None if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "most_records": self.most_records,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Agreement:
        return Agreement(
            Citation.from_json(data["encoder"]),
            str(data["content"]),
            tuple(int(side) for side in data["shape"]),
            float(data["radius"]),
            tuple(Attribute(a["name"], tuple(a["classes"])) for a in data["labels"]),
            tuple(str(m) for m in data["mechanisms"]),
            math.inf if data["epsilon"] is None else float(data["epsilon"]),
            float(data["delta"]),
            int(data["most_records"]),
        )


def _one_of(what: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise UserError(f"no {what} {word!r}; {did_you_mean(word, known)}")


def _check_classes(agreed: Attribute, said: tuple[str, ...]) -> None:
    if said == agreed.classes:
        return
    known = ", ".join(map(repr, agreed.classes[:_SHOWN]))
    unknown = [repr(one) for one in said if one not in agreed.classes]
    which = f": {', '.join(unknown[:_SHOWN])}" if unknown else ", or in another order"
    raise UserError(
        f"label {agreed.name!r} has other classes than those agreed on{which}; these are {known}."
    )


def check_sendable(label: Attribute) -> None:
    """What no release may hold is refused here, user by user: it must not stop everybody."""
    if private_columns(Schema((label,)), None):
        raise UserError(f"label {label.name!r} tells records or people apart: it cannot be sent.")
    for text in machine_paths([label.name, *label.classes]):
        raise UserError(f"label {label.name!r} holds a path of somebody's machine: {text!r}.")


def _check_codes(name: str, column: Array, count: int, classes: int) -> None:
    if column.dtype != np.int64 or column.shape != (count,):
        raise UserError(
            f"label {name!r} is {column.dtype} {list(column.shape)}, not int64 {[count]}."
        )
    if column.min() < 0 or column.max() >= classes:
        raise UserError(f"label {name!r} has codes outside its {classes} classes.")
