"""Telling by their content which bytes would run code if somebody unpickled them.

A pickle has no reliable mark, so it is read opcode by opcode and never run.
"""

from __future__ import annotations

import base64
import binascii
import io
import mmap
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

_HEADER = re.compile(rb"\x80[\x02-\x05]")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_BASE64 = re.compile(r"gA[A-Za-z0-9+/\s]{6,}={0,2}")
"""How every pickle of protocol 2 or later looks in base 64."""

_ARCHIVE = b"PK\x03\x04"
"""How files of torch.save and np.savez begin; they may hold pickles."""

_MOST_BYTES = 1 << 16
"""A pickle imports what it needs early; so far its opcodes are followed."""

_BROKEN = (ValueError, OverflowError, IndexError, KeyError)
"""What bytes that are no pickle make the reader of opcodes raise."""


def file_may_hold_pickle(path: Path) -> bool:
    """Whether a file is a pickle or an archive, or has a pickle that imports somewhere in it."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data[:_MOST_BYTES]
        if start.startswith(_ARCHIVE) or zipfile.is_zipfile(path):
            return True
        if len(data) <= _MOST_BYTES and _is_whole_pickle(start):
            return True
        if _HEADER.match(start) and data[-1:] == b".":
            return True
        return any(_imports(data[m.start() :][:_MOST_BYTES]) for m in _HEADER.finditer(data))


def text_holds_pickle(text: str) -> bool:
    """Whether a pickle in base 64 stands in a text."""
    return any(_decodes_to_pickle(found[0]) for found in _BASE64.finditer(text))


def _decodes_to_pickle(text: str) -> bool:
    packed = "".join(text.split()).rstrip("=")
    try:
        data = base64.b64decode(packed + "=" * (-len(packed) % 4))
    except binascii.Error:
        return False
    return bool(_HEADER.match(data)) and (_imports(data) or _is_whole_pickle(data))


def _is_whole_pickle(data: bytes) -> bool:
    """Whether the bytes, from first to last, are one pickle of any protocol."""
    stream = io.BytesIO(data)
    try:
        count = sum(1 for _ in _opcodes(stream))
    except _BROKEN:
        return False
    return count > 1 and stream.tell() == len(data)


def _imports(data: bytes) -> bool:
    """Whether opcodes from here on name something to import, before they stop making sense."""
    names: list[str] = []
    try:
        for opcode, argument, _ in _opcodes(data):
            if opcode.name in ("GLOBAL", "INST"):
                return all(map(_NAME.fullmatch, str(argument).split(" ", 1)))
            if opcode.name == "STACK_GLOBAL":
                return len(names) >= 2 and all(map(_NAME.fullmatch, names[-2:]))
            if isinstance(argument, str):
                names.append(argument)
    except _BROKEN:
        return False
    return False


def _opcodes(data: bytes | io.BytesIO) -> Iterator[tuple[pickletools.OpcodeInfo, object, object]]:
    """What a pickle would do; odd escapes in bytes that are none are nobody's concern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield from pickletools.genops(data)
