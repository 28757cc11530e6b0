"""Writing whole or not at all: a folder appears complete, or nothing does."""

from __future__ import annotations

import errno
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from understudy.durable import new_file, sync_folder
from understudy.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary sibling to write into; it becomes `folder` if the block succeeds.

    Guarantee: after an error of any kind, Ctrl-C included, neither `folder` nor the
    temporary one is there. An existing `folder` is refused, also an empty one.
    """
    refuse_existing(folder)
    partial = folder.parent / f"{_partial(folder)}{secrets.token_hex(4)}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        for inside in (*(p for p in partial.rglob("*") if p.is_dir()), partial):
            sync_folder(inside)
        refuse_existing(folder)
        partial.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise UserError(_why_not_written(folder, error)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_partial(folder: Path) -> None:
    """Delete what a killed process left of `folder` under temporary names."""
    start = _partial(folder)
    if folder.parent.is_dir():
        for leftover in folder.parent.iterdir():
            if leftover.name.startswith(start):
                shutil.rmtree(leftover, ignore_errors=True)


def _partial(folder: Path) -> str:
    return f".{folder.name}.partial-"


def refuse_existing(folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise UserError(f"the output folder {folder} already exists; name one that does not.")


def write_file(path: Path, data: bytes) -> None:
    with new_file(path) as file:
        file.write(data)


def _why_not_written(folder: Path, error: OSError) -> str:
    if error.errno in _FULL:
        return f"the disk is full: {folder} was not written; free some space or name another disk."
    return f"{folder} could not be written: {error.strerror or error}."
