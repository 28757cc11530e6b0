"""The seal of an evidence file: the digest of all that it says.

It shows an edit by hand. Whoever edits can also seal anew, which the index of the folder
shows (`index.py`). Neither shows a lie told before the file was written.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.errors import UserError
from understudy.release.strict_json import canonical_bytes


def sealed_bytes(content: Mapping[str, Any]) -> bytes:
    """The file for this content, its seal included."""
    whole = {**content, "seal": seal_of(content)}
    return (json.dumps(whole, indent=1, sort_keys=True, allow_nan=False) + "\n").encode("ascii")


def seal_of(content: Mapping[str, Any]) -> str:
    """sha256 of the canonical JSON of everything but the seal itself."""
    return digest({name: value for name, value in content.items() if name != "seal"})


def seal_holds(content: Mapping[str, Any]) -> bool:
    return bool(content.get("seal") == seal_of(content))


def digest(value: Any) -> str:
    """sha256 of a value's canonical JSON."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def plain_json(value: Any, path: str = "") -> Any:
    """The same value in strict JSON: lists for tuples, the word `infinity` for the number.

    What JSON cannot say (NaN, a path, an array) is refused, and the field named.
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            raise UserError(f"evidence: field {path} is not a number; leave it null or say why.")
        return value if math.isfinite(value) else "infinity" if value > 0 else "-infinity"
    if isinstance(value, Mapping):
        return {
            str(name): plain_json(held, f"{path}.{name}" if path else str(name))
            for name, held in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_json(held, f"{path}[{i}]") for i, held in enumerate(value)]
    kind = "a path" if isinstance(value, Path) else type(value).__name__
    raise UserError(f"evidence: field {path} must be plain JSON, not {kind}.")
