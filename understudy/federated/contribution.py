"""What one user sends: arrays, and a statement that lists all of them.

The statement says how the records were treated and what their encoder learnt from, never what
was hidden, what a filter measured or who sends it. A filter leaves no trace in it but its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.data.records import Array, Records
from understudy.data.schema import Schema
from understudy.encoders.citation import Citation
from understudy.errors import UserError
from understudy.privacy.local.channel import LocalChannel

FORMAT = "understudy-contribution/1"
LATENTS, IMAGES = "latents", "images"
CONTENTS = (LATENTS, IMAGES)
FILTER, GAUSSIAN = "filter", "gaussian"
MECHANISMS = (FILTER, GAUSSIAN)
FEATURES, LABEL_PREFIX = "features", "label:"

_KEYS = {"format", "encoder", "content", "count", "labels", "mechanism", "promise"}
_PROMISE_KEYS = {"radius", "epsilon", "delta", "label_epsilons", "public_labels"}


@dataclass(frozen=True)
class Statement:
    """A statement that has been read: names, counts and the mechanism, nothing measured."""

    encoder: Citation
    content: str
    count: int
    classes: Mapping[str, tuple[str, ...]]
    channel: LocalChannel | None

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.classes)

    @property
    def mechanism(self) -> str:
        return FILTER if self.channel is None else GAUSSIAN


@dataclass(frozen=True)
class Contribution:
    """One user's records as they leave the device.

    encoder: whose latents they are; what it learnt from belongs to every claim about them.
    records: filtered or noised features with the labels that come along; no others, no units.
    channel: the local mechanism that they went through; None for a filter, which promises
        nothing.
    """

    encoder: Citation
    content: str
    records: Records
    channel: LocalChannel | None = None

    @staticmethod
    def of(
        said: Statement, features: Array, columns: Mapping[str, Array], schema: Schema
    ) -> Contribution:
        return Contribution(
            said.encoder, said.content, Records(features, dict(columns), schema), said.channel
        )

    @property
    def mechanism(self) -> str:
        return FILTER if self.channel is None else GAUSSIAN

    def arrays(self) -> dict[str, Array]:
        """All that is sent, by name."""
        kind = np.float32 if self.content == LATENTS else np.uint8
        found: dict[str, Array] = {
            FEATURES: np.ascontiguousarray(self.records.features, dtype=kind)
        }
        for name, column in self.records.attributes.items():
            if column.ndim != 1:
                raise UserError(f"label {name!r} holds probabilities; only classes can be sent.")
            found[LABEL_PREFIX + name] = np.ascontiguousarray(column, dtype=np.int64)
        return found

    def statement(self) -> dict[str, Any]:
        """What is said of it, beside the arrays; see `read_statement`."""
        schema, count = self.records.schema, len(self.records)
        return statement_of(self.encoder, self.content, count, schema, self.channel)


def statement_of(
    encoder: Citation, content: str, count: int, schema: Schema, channel: LocalChannel | None
) -> dict[str, Any]:
    """What a contribution says: it can be told, and refused, before there is one."""
    return {
        "format": FORMAT,
        "encoder": encoder.to_json(),
        "content": content,
        "count": count,
        "labels": [{"name": a.name, "classes": list(a.classes)} for a in schema.attributes],
        "mechanism": FILTER if channel is None else GAUSSIAN,
        "promise": promise_to_json(channel),
    }


def read_statement(data: Mapping[str, Any]) -> Statement:
    """Read strictly what a stranger says: a word too many is refused like one too few."""
    if set(data) != _KEYS:
        wrong = sorted(set(data) ^ _KEYS, key=str)
        raise UserError(f"its statement has or lacks {str(wrong[0])!r}, against the agreed form.")
    if data["format"] != FORMAT:
        raise UserError(f"it has format {data['format']!r}, not {FORMAT!r}.")
    try:
        classes = {_text(a["name"]): tuple(map(_text, a["classes"])) for a in data["labels"]}
        if any(set(a) != {"name", "classes"} for a in data["labels"]):
            raise ValueError("a label has more than a name and classes")
        if len(classes) != len(data["labels"]):
            raise ValueError("a label is named twice")
        channel = promise_from_json(data["mechanism"], data["promise"])
        encoder = Citation.from_json(data["encoder"])
        return Statement(encoder, _text(data["content"]), _whole(data["count"]), classes, channel)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"its statement cannot be read ({error}).") from error


def promise_to_json(channel: LocalChannel | None) -> dict[str, Any] | None:
    """What a local mechanism promises; a filter promises nothing."""
    if channel is None:
        return None
    return {
        "radius": float(channel.radius),
        "epsilon": float(channel.epsilon),
        "delta": float(channel.delta),
        "label_epsilons": {name: float(e) for name, e in channel.label_epsilons.items()},
        "public_labels": list(channel.public_labels),
    }


def promise_from_json(mechanism: Any, promise: Any) -> LocalChannel | None:
    """Read strictly what `promise_to_json` gives; errors are those of a damaged file."""
    if mechanism == FILTER:
        if promise is not None:
            raise ValueError("a filter promises nothing")
        return None
    if mechanism != GAUSSIAN or set(promise) != _PROMISE_KEYS:
        raise ValueError("neither a filter nor a whole promise of the Gaussian mechanism")
    return LocalChannel(
        _number(promise["radius"]),
        _number(promise["epsilon"]),
        _number(promise["delta"]),
        {_text(name): _number(value) for name, value in promise["label_epsilons"].items()},
        tuple(map(_text, promise["public_labels"])),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value
