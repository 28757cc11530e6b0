"""How commands fail: in one sentence where the user can mend it, loudly where we must."""

from __future__ import annotations

import errno
import os

import pytest
import typer

from understudy.cli.guard import guarded
from understudy.errors import PrivacyError, UserError


class OutOfMemoryError(RuntimeError):
    """Called like torch's own, which needs a GPU to be raised."""


def failing(error: BaseException) -> int:
    """The exit code of a command that raises this."""

    @guarded
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as left:
        command()
    return int(left.value.exit_code)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UserError("--size must be 8."), "error: --size must be 8."),
        (PrivacyError("beyond the plan."), "error: beyond the plan."),
        (KeyboardInterrupt(), "Ctrl-C"),
        (MemoryError(), "--samples"),
        (OutOfMemoryError("CUDA out of memory"), "--samples"),
        (OSError(errno.ENOSPC, "No space left on device", "out/x"), "disk is full: out/x"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "disk is full: a file"),
        (OSError(errno.EACCES, "Permission denied", "out/x"), "out/x cannot be used"),
        (OSError(errno.EROFS, "Read-only file system", "out/x"), "Read-only"),
    ],
)
def test_what_a_user_can_mend(
    error: BaseException, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing(error) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert words in said.err


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a bug"),
        RuntimeError("a bug"),
        KeyError("a bug"),
        FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "outputs.json"),
    ],
)
def test_our_own_mistakes_are_not_hidden(error: Exception) -> None:
    @guarded
    def command() -> None:
        raise error

    with pytest.raises(type(error)):
        command()
