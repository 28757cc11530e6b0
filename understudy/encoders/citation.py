"""An encoder as claims cite it: which one, and what it learnt from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from understudy.encoders.encoder import Encoder
from understudy.encoders.provenance import Provenance
from understudy.errors import UserError

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Citation:
    """The digest of an encoder's file, and the provenance that the file states.

    Everything that is claimed of data made with an encoder holds one, and none has a default:
    what cannot say where its encoder comes from cannot be built. The digest covers the
    provenance, so whoever has the file can check both (`problems`).
    """

    digest: str
    provenance: Provenance

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.digest):
            raise UserError(f"an encoder's digest is 64 hexadecimal digits, not {self.digest!r}.")

    @staticmethod
    def of(encoder: Encoder) -> Citation:
        return Citation(encoder.digest, encoder.provenance)

    @property
    def statement(self) -> str:
        """What every claim says of it, in one sentence."""
        return self.provenance.statement

    def problems(self, encoder: Encoder) -> list[str]:
        """How this differs from the encoder that it should cite; empty if it cites it."""
        if self.digest != encoder.digest:
            return [f"it was made with the encoder {self.digest[:12]}…, not {encoder.digest[:12]}…"]
        if self.provenance != encoder.provenance:
            return ["it says something else of the encoder's training data than the encoder's file"]
        return []

    def to_json(self) -> dict[str, Any]:
        return {"digest": self.digest, "provenance": self.provenance.to_json()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Citation:
        """Read strictly what `to_json` gives; errors are those of a damaged file."""
        found = Citation(data["digest"], Provenance.from_json(data["provenance"]))
        if found.to_json() != dict(data):
            raise ValueError("its encoder is not cited in the agreed form")
        return found
