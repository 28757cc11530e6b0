"""A job for `encoder_away.py`: pictures as the files that they were, and how to teach an encoder.

Read where only torch, numpy and safetensors are, and Pillow or torchvision for the pictures. Files
that travel have at most 16 MiB each on some machines, so large ones are cut into pieces.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.data.records import Array, Records
from understudy.durable import replace_durably
from understudy.errors import UserError

FORMAT = "understudy-encoder-away/1"
FILE, JPEGS, ENDS, MEANS = "job.json", "jpegs.npy", "ends.npy", "means.npy"
MOST_BYTES = 60 << 20
PIECE_BYTES = 15 << 20
_TONE = 1.5
"""How far a picture's mean may be off by the decoder, of 255; a swapped channel is off by more."""


def write_job(out: Path, told: dict[str, Any], records: Records, files: Sequence[bytes]) -> int:
    """Whole or not at all, for its owner alone; the size of the pictures."""
    blob = np.frombuffer(b"".join(files), np.uint8)
    if blob.nbytes > MOST_BYTES:
        raise UserError(f"the pictures take {blob.nbytes >> 20} MiB, more than can travel (60).")
    new = out.with_name(f".{out.name}.new")
    new.mkdir(parents=True, mode=0o700)
    ends = np.cumsum([len(content) for content in files], dtype=np.int64)
    for name, array in ((JPEGS, blob), (ENDS, ends), (MEANS, _tones(records.features))):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        replace_durably(new / name, buffer.getvalue())
    replace_durably(new / FILE, json.dumps(told, indent=1, allow_nan=False).encode())
    new.rename(out)
    return int(blob.nbytes)


def read_job(job: Path) -> dict[str, Any]:
    path = job / FILE
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if told["format"] != FORMAT:
            raise UserError(f"{path} has format {told['format']!r}, not {FORMAT!r}.")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read as a job: {error!r}; pack it first.") from error
    return told


def files_of(data: Path, records: Records) -> list[bytes]:
    """Of each record the file that decodes to its very pixels, without any scaling."""
    from understudy.data.catalog import catalog_entry
    from understudy.data.images import Reading, decode_image, fit, to_array
    from understudy.data.sources.shelf import open_shelf

    entry = catalog_entry(data.name)
    shelf = open_shelf(data, entry.archives, entry.roots, "")
    if shelf is None:
        raise UserError(f"{data} holds neither a folder {entry.roots[0]} nor {entry.archives[0]}.")
    place = {_mark(pixels): i for i, pixels in enumerate(records.features)}
    found: dict[int, bytes] = {}
    names = sorted(name for name in shelf.names() if name.endswith(".jpg"))
    for at, content in shelf.read(names):
        picture = fit(decode_image(content, names[at]), Reading(channels=3))
        row = place.get(_mark(to_array(picture)))
        if row is not None:
            found.setdefault(row, content)
    if len(found) != len(place):
        raise UserError(
            f"{len(place) - len(found):,} pictures are not stored at {records.shape[1]}x"
            f"{records.shape[2]} pixels in {data}; save them at that size first."
        )
    return [found[place[_mark(pixels)]] for pixels in records.features]


def decoded(job: Path, shape: tuple[int, ...]) -> Array:
    """The pictures as uint8 [N, C, H, W]; each is held against its mean colour at packing."""
    blob, ends, tones = (np.load(job / n, allow_pickle=False) for n in (JPEGS, ENDS, MEANS))
    decode = _decoder()
    images = np.empty((len(ends), *shape), np.uint8)
    start = 0
    for row, end in enumerate(ends.tolist()):
        images[row] = decode(blob[start:end])
        start = end
    off = float(np.abs(_tones(images) - tones).max(initial=0.0))
    if off > _TONE:
        raise UserError(
            f"pictures come out otherwise than they were packed (mean colour off by {off:.1f})."
        )
    return images


def _decoder() -> Callable[[Array], Array]:
    """A function from a file's bytes, as an array, to uint8 [C, H, W]."""
    try:
        from PIL import Image
    except ImportError:
        return _torchvision_decoder()
    return lambda data: np.asarray(Image.open(io.BytesIO(data.tobytes())).convert("RGB")).transpose(
        2, 0, 1
    )


def _torchvision_decoder() -> Callable[[Array], Array]:
    try:
        from torchvision.io import ImageReadMode, decode_jpeg
    except (ImportError, RuntimeError, OSError) as error:
        raise UserError(
            "decoding JPEG files needs Pillow or torchvision; neither is here."
        ) from error
    return lambda data: decode_jpeg(torch.from_numpy(data.copy()), ImageReadMode.RGB).numpy()


def write_pieces(folder: Path, name: str, content: bytes) -> int:
    """A file in pieces that may travel, `NAME.1-of-3` and so on; how many."""
    count = max(1, -(-len(content) // PIECE_BYTES))
    for old in folder.glob(f"{name}.*-of-*"):
        old.unlink()
    for i in range(count):
        piece = content[i * PIECE_BYTES : (i + 1) * PIECE_BYTES]
        replace_durably(folder / f"{name}.{i + 1}-of-{count}", piece)
    return count


def joined_pieces(folder: Path, name: str) -> bytes | None:
    """The file whose pieces lie in a folder; None where there is none."""
    found = sorted(folder.glob(f"{name}.*-of-*"), key=lambda p: int(p.suffix[1:].partition("-")[0]))
    if not found:
        return None
    names = [f"{name}.{i + 1}-of-{len(found)}" for i in range(len(found))]
    if [path.name for path in found] != names:
        raise UserError(f"{folder} does not hold all pieces of {name}: {found[-1].name} is there.")
    return b"".join(path.read_bytes() for path in found)


def _tones(images: Array) -> Array:
    return images.mean(axis=(2, 3), dtype=np.float64).astype(np.float32)


def _mark(pixels: Array) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).digest()
