"""Looking into every message that leaves a device, for anything that was not agreed on."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from understudy.encoders.encoder import Encoder
from understudy.federated.user import User, encoded

STATEMENT_WORDS = {"format", "encoder", "content", "count", "labels", "mechanism", "promise"}


def uninvited(reply: Any, user: User, encoder: Encoder) -> list[str]:
    """Everything in a reply that its user did not agree to send; written without the package's
    own check, so that the two can disagree."""
    if reply.has_error():
        return [f"an error in words: {reply.error.reason}"] if reply.error.reason else []
    content, found = reply.content, []
    if dict(content.metric_records):
        found.append("metrics")
    if set(content.keys()) == {"declined"}:
        return found + _extra(content.config_records["declined"], {"declined"})
    found += _extra(content, {"statement", "sent"})
    found += _extra(content.config_records["statement"], {"json"})
    text = str(content.config_records["statement"]["json"])
    found += _extra(json.loads(text), STATEMENT_WORDS)
    hidden = user.choice.private if user.choice else ()
    found += [f"the name {name!r}" for name in hidden if name in text]
    useful = user.choice.useful if user.choice else channel_labels(user)
    agreed = {"features", *(f"label:{name}" for name in useful)}
    for name, array in content.array_records["sent"].items():
        values = np.frombuffer(array.data, array.dtype).reshape(array.shape)
        found += [f"array {name!r}"] if name not in agreed else []
        found += _private_values(name, values, user, encoder)
    return found


def channel_labels(user: User) -> tuple[str, ...]:
    assert user.channel is not None
    return (*user.channel.label_epsilons, *user.channel.public_labels)


def _extra(found: Any, allowed: set[str]) -> list[str]:
    return [f"key {name!r}" for name in found if name not in allowed]


def _private_values(name: str, values: Any, user: User, encoder: Encoder) -> list[str]:
    """Raw latents, raw records or hidden labels among the values of an array."""
    raw = encoded(encoder, user.records).features
    found = []
    if values.ndim == 2 and values.shape == raw.shape and np.isclose(values, raw).all(1).any():
        found.append(f"raw latents in {name!r}")
    if values.ndim == 4 and (values == user.records.features).all((1, 2, 3)).any():
        found.append(f"raw records in {name!r}")
    for hidden in user.choice.private if user.choice else ():
        codes = user.records.attributes[hidden]
        columns = values.reshape(len(values), -1).T if len(values) == len(codes) else []
        if any(np.array_equal(column, codes) for column in columns):
            found.append(f"the hidden label {hidden!r} in {name!r}")
    return found
