"""A filter on disk: one file that says what it hides, and which encoder it belongs to.

A safetensors file. Parameters are in half precision, which the filter was rounded to before its
distortion was measured. The header holds one JSON text with everything else, and a digest over
this text and all parameters: a changed file is noticed. The digest proves that the file is whole,
not who made it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save as tensors_to_bytes

from understudy.data.schema import Attribute
from understudy.durable import replace_durably
from understudy.errors import UserError, reading
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.filter import Filter
from understudy.filters.model import FilterShape
from understudy.nets.seeding import built

FORMAT = "understudy-filter/1"
SUFFIX = ".filter"
_HEADER, _DIGEST, _VARIANCES = "understudy", "digest", "reference_variances"


def save_filter(path: Path, filter_: Filter) -> None:
    """Write the file, whole or not at all."""
    tensors = {k: v.detach().half().contiguous() for k, v in filter_.model.state_dict().items()}
    tensors[_VARIANCES] = torch.from_numpy(filter_.variances.astype(np.float32))
    header = json.dumps(_description(filter_), sort_keys=True, separators=(",", ":"))
    marks = {_HEADER: header, _DIGEST: _digest(header, tensors)}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_durably(path, tensors_to_bytes(tensors, metadata=marks))


def load_filter(path: Path, encoder_digest: str | None = None) -> Filter:
    """Read a filter; one that was changed, or is of another version or encoder, is refused.

    encoder_digest: of the encoder whose latents will be filtered; None to look at the file only.
    """
    if not path.is_file():
        raise UserError(f"there is no filter file {path}.")
    with reading(path):
        with safe_open(path, framework="pt") as file:
            marks = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = marks.get(_HEADER, "")
        data = json.loads(header) if header else {}
    if data.get("format") != FORMAT:
        raise UserError(f"{path} has format {data.get('format')!r}, not {FORMAT!r}.")
    if _digest(header, tensors) != marks.get(_DIGEST):
        raise UserError(f"{path} was changed after it was written; get it anew.")
    if encoder_digest is not None and data["encoder"] != encoder_digest:
        raise UserError(
            f"{path} was made for another encoder ({data['encoder'][:12]}, not "
            f"{encoder_digest[:12]}); train it again for this one."
        )
    with reading(path):
        return _filter(data, tensors)


def _description(filter_: Filter) -> dict[str, Any]:
    shape, choice = filter_.model.shape, filter_.choice
    return {
        "format": FORMAT,
        "encoder": filter_.encoder_digest,
        "radius": filter_.radius,
        "shape": asdict(shape),
        "private": [{"name": a.name, "classes": list(a.classes)} for a in filter_.private],
        "useful": list(choice.useful),
        "distortion": asdict(filter_.distortion),
        "measured": filter_.measured,
    }


def _filter(data: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Filter:
    shape = FilterShape(**{**data["shape"], "classes": tuple(data["shape"]["classes"])})
    model = built(shape.build, 0, "replaced by the saved parameters")
    model.load_state_dict({k: v.float() for k, v in tensors.items() if k != _VARIANCES})
    private = tuple(Attribute(a["name"], tuple(a["classes"])) for a in data["private"])
    return Filter(
        model=model.eval(),
        private=private,
        choice=Choice(tuple(a.name for a in private), tuple(data["useful"])),
        distortion=Distortion(**data["distortion"]),
        variances=tensors[_VARIANCES].double().numpy(),
        measured=float(data["measured"]),
        encoder_digest=str(data["encoder"]),
        radius=float(data["radius"]),
    )


def _digest(header: str, tensors: Mapping[str, torch.Tensor]) -> str:
    total = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()
