"""How commands fail: one sentence on standard error, exit code 2, no traceback."""

from __future__ import annotations

import errno
import functools
import json
import sys
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer

from understudy.errors import UserError

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
            _fail("stopped by Ctrl-C; what was finished is kept, go on with --resume.")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
                raise
            where = f" ({error.filename})" if error.filename else ""
            _fail(f"cannot write{where}: {error.strerror}; make room or choose another folder.")
        except MemoryError:
            _fail("there is not enough memory; try a smaller --size, --samples or batch.")

    return wrapper


def _fail(sentence: str) -> NoReturn:
    print(f"error: {sentence}", file=sys.stderr)
    raise typer.Exit(2)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
