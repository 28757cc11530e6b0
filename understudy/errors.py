"""The errors that people see.

A `UserError` is one sentence that names the argument or file at fault and what
would be right. The command line prints it and exits with code 2, without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the caller gave is wrong; the message says what would be right."""


class PrivacyError(UserError):
    """An operation was refused because the privacy claim would not survive it."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A tail for an error message: the nearest known names, or all of them.

    >>> did_you_mean("dp-merv", ["dp-gan", "dp-merf"])
    'did you mean dp-merf?'
    """
    names = sorted(known)
    near = difflib.get_close_matches(wrong, names, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {', '.join(names)}." if names else "none are known."
