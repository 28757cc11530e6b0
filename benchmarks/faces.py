"""UTKFace as the filter benchmarks use it: who teaches the encoder, who has filters, who is asked.

Three parts that share no picture. The test part is the loader's, by a hash of file names; its
training part is divided, every class of every attribute in proportion, into a share that the
encoder learns from and a share whose people train filters, and on which readers learn. Attributes
are those of the file names; `young` is an age under 30, a bin that was fixed before any was read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from understudy.data.dedup import deduplicate, without_shared
from understudy.data.load import Dataset
from understudy.data.records import Array, Records
from understudy.data.schema import Attribute, Schema
from understudy.data.splits import stratified_split

NAME = "utkface"
ENCODER, FILTER, TEST = "encoder", "filter", "test"
SHARES = {ENCODER: 0.6, FILTER: 0.4}
SEED = 0
YOUNG = ("0-2", "3-9", "10-19", "20-29")
"""The loader's age groups under 30."""


def face_parts(data: Dataset) -> dict[str, Records]:
    """The three parts; a picture that two of them held stays in the first of them."""
    whole = {name: deduplicate(data.part(name)).records for name in (TEST, "train")}
    divided = stratified_split(whole["train"], SHARES, SEED)
    return without_shared({TEST: whole[TEST], **divided})


def content_mark(records: Records) -> str:
    """A short digest of the pictures of a part, in order, without their labels."""
    pixels = np.ascontiguousarray(records.features)
    return hashlib.sha256(pixels.tobytes()).hexdigest()[:16]


def taught_on(provenance: str, records: Records) -> str:
    """What an encoder that learnt from this part says of it; `filters_faces` looks for it."""
    return (
        f"{provenance}; the encoder's share of its training part, {len(records):,} pictures "
        f"({content_mark(records)})"
    )


def face_schema() -> Schema:
    return Schema(
        (
            Attribute("gender", ("male", "female")),
            Attribute("race", ("white", "black", "asian", "indian", "other")),
            Attribute("young", ("no", "yes")),
        )
    )


def face_labels(records: Records) -> Mapping[str, Array]:
    """Codes of the three attributes."""
    ages = records.schema.attribute("age").classes
    young = np.array([name in YOUNG for name in ages])
    for name in ("gender", "race"):
        if records.schema.attribute(name) != face_schema().attribute(name):
            raise ValueError(f"the classes of {name!r} are not those that were declared")
    return {
        "gender": records.attributes["gender"],
        "race": records.attributes["race"],
        "young": young[records.attributes["age"]].astype(np.int64),
    }
