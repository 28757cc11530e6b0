"""The errors that people see.

A `UserError` is one sentence that names the argument or file at fault and what
would be right. The command line prints it and exits with code 2, without a traceback.
"""

from __future__ import annotations

import difflib
import errno
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """Something the caller gave is wrong; the message says what would be right."""


class MixedSizesError(UserError):
    """Images differ in size, and nobody said which size they should have.

    size: one that the message suggests, if it does.
    """

    def __init__(self, message: str, size: int | None = None) -> None:
        super().__init__(message)
        self.size = size


class PrivacyError(UserError):
    """An operation was refused because the privacy claim would not survive it."""


class RunFailed(PrivacyError):  # noqa: N818 - it names what happened to the run
    """A callback failed on private records: the run is over, and is never resumed or released."""

    @staticmethod
    def because(error: BaseException) -> RunFailed:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        return RunFailed(
            f"a callback failed on private records ({type(error).__name__}: {reason}), so the run "
            "is over: its whole plan stays charged, and it is never resumed or released; that it "
            "failed may depend on one record, so do not publish it; mend the method and start a "
            "new run."
        )


class LostConnectionError(ConnectionError):
    """A process of a team has ended. Only the team raises it: a callback's own `ConnectionError`,
    as any other of its errors, may depend on a record."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A tail for an error message: the nearest known names, or all of them.

    >>> did_you_mean("dp-merv", ["dp-gan", "dp-merf"])
    'did you mean dp-merf?'
    >>> did_you_mean("MNIST", ["mnist", "digits"])
    'did you mean mnist?'
    """
    names = sorted(known)
    in_any_case = {name.lower(): name for name in reversed(names)}
    near = difflib.get_close_matches(wrong.lower(), in_any_case, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(in_any_case[name] for name in near)}?"
    return f"known: {', '.join(names)}." if names else "none are known."


def did_you_mean_beside(path: Path) -> str | None:
    """The nearest names in the folder that a path leads to; None where there is none like it."""
    try:
        beside = {entry.name: entry for entry in path.parent.iterdir() if entry.name[0] != "."}
    except OSError:
        return None
    near = difflib.get_close_matches(path.name, beside, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(str(beside[n]) for n in near)}?" if near else None


def home_expanded(words: str | Path) -> Path:
    """A path as its owner wrote it, with `~` for a home folder."""
    try:
        return Path(words).expanduser()
    except RuntimeError as error:
        raise UserError(
            f"{words} begins with the home folder of somebody who is not known here; write the "
            "whole path."
        ) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file of a run makes its reader raise into one sentence about it.

    A program's own mistake would be hidden too, so nothing but reading belongs inside.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing; restore the folder, or start a new run.") from error
    except _malformed() as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # the disk's trouble, not the file's; a place that is none is the file's
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(
            f"{path} is damaged ({reason}); restore it from a copy, or start a new run."
        ) from error


def _malformed() -> tuple[type[Exception], ...]:
    """What readers of JSON, archives and tensors raise; looked up when something was raised."""
    import struct
    import zipfile
    import zlib

    tensors = sys.modules.get("safetensors")
    return (
        *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError),
        *(
            ImportError,
            EOFError,
            MemoryError,
            OSError,
            struct.error,
            zlib.error,
            zipfile.BadZipFile,
        ),
        *(() if tensors is None else (tensors.SafetensorError,)),
    )
