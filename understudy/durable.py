"""Files that are on the disk when a function returns, and whole or not there at all.

The only module that calls `os.fsync`: everything that must survive a power cut, or must not be
found half written, is written here.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from understudy.errors import PrivacyError

PUBLIC, OWNER_ONLY = 0o666, 0o600
"""Permissions of a new file, before the umask."""


@contextmanager
def new_file(path: Path, mode: int = PUBLIC) -> Iterator[BinaryIO]:
    """A file that must not exist yet, on the disk when the block ends."""
    with _naming(path), os.fdopen(os.open(path, _NEW, mode), "wb") as file:
        yield file
        flush(file)


@contextmanager
def replacing(path: Path, mode: int = PUBLIC) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its place when the block ends; an error leaves `path` alone.

    Two processes that write one path each bring a whole file; the last one stays.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        with new_file(new, mode) as file:
            yield file
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file that nobody reads yet, in a folder that is renamed later."""
    with _naming(path), path.open("wb") as file:
        file.write(content)
        flush(file)


def replace_durably(path: Path, content: bytes, mode: int = PUBLIC) -> None:
    """Write a file whole or not at all."""
    with replacing(path, mode) as file:
        file.write(content)


def append_durably(path: Path, line: bytes, end: int) -> None:
    """Add a line at `end`, where the file must end. A line that the disk refuses leaves no half
    behind."""
    with _naming(path), path.open("r+b", buffering=0) as file:
        if file.seek(0, os.SEEK_END) != end:
            raise PrivacyError(f"{path.name} was changed by someone else; resume the run.")
        append_at(file.fileno(), line, end)


def append_at(descriptor: int, content: bytes, end: int) -> None:
    """Let an open file end with `content` from `end` on; if the disk refuses, it ends at `end`."""
    try:
        os.ftruncate(descriptor, end)
        written = 0
        while written < len(content):
            written += os.pwrite(descriptor, content[written:], end + written)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def truncate_durably(path: Path, end: int) -> None:
    """Cut a file off."""
    with path.open("r+b") as file:
        file.truncate(end)
        flush(file)


def flush(file: IO[bytes]) -> None:
    """Wait until the disk has what was written into an open file."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's entries: a rename, say, or a new file."""
    _sync(folder)


def sync_tree(folder: Path) -> None:
    """Wait until the disk has all that is in a folder, whoever wrote it; renaming it then moves it
    whole."""
    for path in (*folder.rglob("*"), folder):
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        with _naming(path):
            os.fsync(handle)
    finally:
        os.close(handle)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A full disk is reported without a name; say which file did not fit."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
