"""An encoder behind the door, for private records whose latents may leave."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from understudy.data.records import Records
from understudy.encoders.encoder import Encoder
from understudy.privacy.door.private_records import PrivateRecords

REASON = "latents leave without noise"


@dataclass(frozen=True)
class EncoderMap:
    """The `RecordMap` of an encoder.

    Guarantee: none. Latents leave as a reveal: the plan must hold one, and the claim is empirical.
    """

    encoder: Encoder

    def apply(self, private: PrivateRecords) -> Records:
        def latents_of(records: Records) -> Records:
            latents = self.encoder.encode(records.features).numpy()
            return Records(latents, records.attributes, records.schema, records.units)

        return private.transform(latents_of, REASON)

    def save(self, folder: Path) -> None:
        self.encoder.save(folder)

    @classmethod
    def load(cls, folder: Path) -> EncoderMap:
        return cls(Encoder.load(folder))
