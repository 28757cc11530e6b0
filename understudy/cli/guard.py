"""How commands fail: one sentence on standard error, exit code 2, no traceback."""

from __future__ import annotations

import errno
import functools
import json
import sys
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer

from understudy.cli.colours import marked
from understudy.errors import UserError

_OF_THE_MACHINE = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.EIO, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
    }
)
"""Errors of disks and paths, which the user can mend; others are our own mistakes."""

_LOOP = "Symlink loop"
"""What Python 3.11 says of a path that never ends."""

_NO_MEMORY = "there is not enough memory; try a smaller --size, --samples or batch."

P = ParamSpec("P")
R = TypeVar("R")


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what a user can cause into one sentence; let our own mistakes show themselves."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except UserError as error:
            _fail(str(error))
        except KeyboardInterrupt:
            _fail("stopped by Ctrl-C; run it again when you like.")
        except OSError as error:
            if error.errno not in _OF_THE_MACHINE:
                raise
            _fail(_disk_sentence(error))
        except MemoryError:
            _fail(_NO_MEMORY)
        except RuntimeError as error:
            if str(error).startswith(_LOOP):
                _fail(f"{error}: a link that leads back to itself; take it out.")
            if type(error).__name__ != "OutOfMemoryError":  # torch's own, for a GPU
                raise
            _fail(_NO_MEMORY)

    return wrapper


def _disk_sentence(error: OSError) -> str:
    where = str(error.filename) if error.filename else "a file"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the disk is full: {where} could not be written; make room and go on."
    return f"{where} cannot be used ({error.strerror}); choose another place."


def _fail(sentence: str) -> NoReturn:
    print(marked(f"error: {sentence}", sys.stderr), file=sys.stderr)
    raise typer.Exit(2)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
