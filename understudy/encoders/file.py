"""The encoder file: one safetensors file with the weights and what must be known of them.

Its metadata is one JSON text. The digest is the sha256 of everything else in the file, in a
fixed order, so damage and careless edits are seen. Whoever wants more compares the digest
with the one that the owner published: a file can be changed together with its digest.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes

from understudy.data.schema import Schema
from understudy.durable import replace_durably
from understudy.encoders.encoder import Encoder
from understudy.encoders.provenance import Provenance
from understudy.encoders.specs import spec_from_json, spec_to_json
from understudy.errors import UserError, reading
from understudy.nets.packing import pack_module, unpack_module

FORMAT = "understudy-encoder/1"
_KEY = "understudy"
_LARGEST = 1 << 30
_LARGEST_HEADER = 1 << 24


def write_encoder(path: Path, encoder: Encoder) -> str:
    """Write the file, whole or not at all; gives its digest."""
    tensors, facts = _tensors(encoder), _facts(encoder)
    digest = _digest(tensors, facts)
    text = json.dumps({**facts, "digest": digest}, sort_keys=True, allow_nan=False)
    replace_durably(path, tensors_to_bytes(tensors, {_KEY: text}))
    return digest


def read_encoder(path: Path, digest: str | None = None) -> Encoder:
    """The encoder of a file.

    digest: what the owner published; a file with another one is refused.
    """
    content = _content(path)
    facts = _metadata(path, content)
    if facts.get("format") != FORMAT:
        raise UserError(
            f"{path} is an encoder file of format {facts.get('format')!r}; this version reads "
            f"{FORMAT!r}: get the file in that format, or another version of understudy."
        )
    with reading(path):
        tensors = tensors_from_bytes(content)
        stated = facts.pop("digest")
        found = _digest(tensors, facts)
    if found != stated:
        raise UserError(
            f"{path} was changed after it was written: its content has digest {found[:16]}…, not "
            f"the {str(stated)[:16]}… it states; get the file again."
        )
    if digest is not None and digest.lower() != found:
        raise UserError(
            f"{path} has digest {found}, not the {digest[:64]} that was asked for; get the file "
            "that the owner published."
        )
    with reading(path):
        return _build(facts, tensors)


def stated_provenance(path: Path) -> Provenance | None:
    """What an encoder file says that it learnt from; None where the file is no encoder's."""
    with path.open("rb") as file:
        head = file.read(8)
        length = int.from_bytes(head, "little") if len(head) == 8 else 0
        content = head + file.read(min(length, _LARGEST_HEADER))
    try:
        facts = _metadata(path, content)
    except UserError:
        return None
    with reading(path):
        return Provenance.from_json(facts["provenance"])


def encoder_digest(encoder: Encoder) -> str:
    """The digest that the encoder's file has."""
    return _digest(_tensors(encoder), _facts(encoder))


def _facts(encoder: Encoder) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "spec": spec_to_json(encoder.spec),
        "radius": encoder.radius,
        "schema": encoder.schema.to_json(),
        "provenance": encoder.provenance.to_json(),
    }


def _tensors(encoder: Encoder) -> dict[str, torch.Tensor]:
    packed = pack_module("encoder", encoder.encoder) | pack_module("decoder", encoder.decoder)
    return {name: value.detach().cpu().contiguous() for name, value in packed.items()}


def _digest(tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> str:
    """sha256 over the facts and every tensor, with lengths in front of all that varies."""
    total = hashlib.sha256()
    pieces = [json.dumps(facts, sort_keys=True, allow_nan=False).encode()]
    for name in sorted(tensors):
        value = tensors[name]
        pieces.append(f"{name} {value.dtype} {list(value.shape)}".encode())
        pieces.append(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    for piece in pieces:
        total.update(len(piece).to_bytes(8, "big") + piece)
    return total.hexdigest()


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise UserError(f"there is no encoder file {path}; `understudy filter init` writes one.")
    if path.stat().st_size > _LARGEST:
        raise UserError(f"{path} has more than {_LARGEST >> 30} GB; it is no encoder file.")
    return path.read_bytes()


def _metadata(path: Path, content: bytes) -> dict[str, Any]:
    """What the file says of itself: a safetensors header is a length and a JSON object."""
    try:
        (length,) = struct.unpack("<Q", content[:8])
        if length > _LARGEST_HEADER:
            raise ValueError
        facts = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][_KEY])
        if not isinstance(facts, dict):
            raise TypeError
    except (struct.error, ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path} is no encoder file: it is not a safetensors file with an encoder's metadata."
        ) from error
    return facts


def _build(facts: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Encoder:
    """On the meta device first: no memory is taken for what the file does not hold."""
    spec = spec_from_json(facts["spec"])
    with torch.device("meta"):
        encoder, decoder = spec.encoder(), spec.decoder()
    unpack_module("encoder", encoder, tensors, assign=True)
    unpack_module("decoder", decoder, tensors, assign=True)
    return Encoder(
        spec,
        float(facts["radius"]),
        encoder.requires_grad_(False),
        decoder.requires_grad_(False),
        Schema.from_json(facts["schema"]),
        Provenance.from_json(facts["provenance"]),
    )
