"""A file of public weights, and what is known of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from understudy.errors import UserError

SAFETENSORS, NPZ, TORCH = "safetensors", "npz", "torch"

FORMATS: Mapping[str, str] = {
    ".safetensors": SAFETENSORS,
    ".npz": NPZ,
    ".pth": TORCH,
    ".pt": TORCH,
}
"""How weights are written, by the ending of their file; no other is read."""


@dataclass(frozen=True)
class WeightsFile:
    """Public weights as a method is given them.

    name: the catalog's, or the file's own where the catalog does not know it.
    sha256: of the whole file. provenance: what they were trained on, and by whom, in words.
    licence: None where it is unknown.
    """

    path: Path
    name: str
    sha256: str
    provenance: str
    licence: str | None
    format: str

    def check(self) -> None:
        """Refuse a file that has changed since its digest was taken."""
        found = digest_of(self.path)
        if found != self.sha256:
            raise UserError(
                f"weights {self.path} have SHA-256 {found}, but {self.name} has {self.sha256}; "
                "put the right file there."
            )

    def to_json(self) -> dict[str, str | None]:
        """All but where the file lies."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "provenance": self.provenance,
            "licence": self.licence,
            "format": self.format,
        }

    @staticmethod
    def from_json(data: Mapping[str, str | None], path: Path) -> WeightsFile:
        """The same weights where they lie now; a file that is another is refused."""
        name, sha256, provenance, form = (
            str(data[key]) for key in ("name", "sha256", "provenance", "format")
        )
        found = WeightsFile(path, name, sha256, provenance, data["licence"], form)
        found.check()
        return found


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def format_of(path: Path) -> str:
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"{path} cannot hold weights; its name must end in {', '.join(FORMATS)}.")
    return FORMATS[path.suffix.lower()]
