"""What reading a hostile or broken file may raise, and how that is told."""

from __future__ import annotations

from understudy.errors import UserError

UNREADABLE = (
    *(UserError, KeyError, TypeError, AttributeError, ValueError),
    *(RecursionError, ArithmeticError, OSError),
)
"""Each becomes a problem with a name, never a traceback."""


def reason(error: BaseException, name: str) -> str:
    return (
        str(error) if isinstance(error, UserError) else f"{name} cannot be understood: {error!r}."
    )
