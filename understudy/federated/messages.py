"""Contributions as Flower messages: what is asked, what is answered, and nothing beside.

Arrays travel as their bytes, with type and shape; nothing that arrives is unpickled or parsed by
more than `numpy.frombuffer`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from understudy.data.records import Array
from understudy.errors import UserError
from understudy.federated.agreement import Agreement
from understudy.federated.contribution import Contribution
from understudy.federated.merging import doubted
from understudy.release.strict_json import canonical_bytes, parse_object

AGREEMENT, SENT, STATEMENT, DECLINED = "agreement", "sent", "statement", "declined"
_TEXT = "json"
_RAW = "understudy.raw"
_TYPES = ("float32", "uint8", "int64")


def question(agreement: Agreement) -> RecordDict:
    """What the server asks of everybody: the same words, no data and no model."""
    text = json.dumps(agreement.to_json(), sort_keys=True, allow_nan=False)
    return RecordDict({AGREEMENT: ConfigRecord({_TEXT: text})})


def agreement_asked(content: RecordDict) -> Agreement:
    with doubted():
        text = content.config_records[AGREEMENT][_TEXT]
        return Agreement.from_json(parse_object(str(text).encode(), AGREEMENT))


def answer(contribution: Contribution) -> RecordDict:
    """A contribution as two records: a statement, and the arrays it lists."""
    arrays = {
        name: FlowerArray(str(value.dtype), tuple(value.shape), _RAW, value.tobytes())
        for name, value in contribution.arrays().items()
    }
    text = canonical_bytes(contribution.statement()).decode()
    return RecordDict(
        {STATEMENT: ConfigRecord({_TEXT: text}), SENT: ArrayRecord(arrays, keep_input=False)}
    )


def declined() -> RecordDict:
    """A user sends nothing, and does not say why: reasons can speak of the records."""
    return RecordDict({DECLINED: ConfigRecord({DECLINED: True})})


def contribution_in(content: RecordDict, agreement: Agreement) -> Contribution:
    """The contribution in an answer, if there is nothing else in it; else a reason.

    Guarantee: every record, every array and every word of what is taken was agreed on.
    """
    with doubted():
        if set(content.keys()) == {DECLINED}:
            raise UserError("the user declined.")
        uninvited = sorted(set(content.keys()) - {STATEMENT, SENT})
        if uninvited:
            raise UserError(f"it holds the record {uninvited[0]!r}, which was not agreed on.")
        return agreement.check(_statement(content), _arrays(content))


def _statement(content: RecordDict) -> Mapping[str, Any]:
    words = content.config_records[STATEMENT]
    if set(words.keys()) != {_TEXT}:
        raise UserError("its statement holds more than was agreed on.")
    return parse_object(str(words[_TEXT]).encode(), "its statement")


def _arrays(content: RecordDict) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, sent in content.array_records[SENT].items():
        if sent.stype != _RAW or sent.dtype not in _TYPES:
            raise UserError(f"array {name!r} is of kind {sent.stype!r} {sent.dtype!r}.")
        kind = np.dtype(sent.dtype)
        if min(sent.shape, default=1) < 0:
            raise UserError(f"array {name!r} has a side below 0.")
        if len(sent.data) != kind.itemsize * math.prod(sent.shape):
            raise UserError(f"array {name!r} has other bytes than its shape asks for.")
        found[name] = np.frombuffer(sent.data, kind).reshape(sent.shape)
    return found
