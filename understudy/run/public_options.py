"""`--public [NAME=]DATA` and `--weights [NAME=]FILE`: which input of the method each is for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from understudy.errors import UserError, did_you_mean
from understudy.methods.info import MethodInfo, PublicRecords, PublicWeights

_NAMED = re.compile(r"([a-z0-9][a-z0-9_-]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class _Option:
    """One of the two options. value: what stands for its value in its help."""

    flag: str
    what: str
    value: str


_RECORDS = _Option("--public", "public data", "DATA")
_WEIGHTS = _Option("--weights", "public weights", "FILE")


def public_sources(given: Sequence[str], info: MethodInfo) -> Mapping[str, str]:
    """The source of each public input of records, by name.

    Raises UserError where the options are not what the method takes. What begins with a name and
    `=` names an input; a path that looks so is written with `./` before it.
    """
    return _sources(_RECORDS, given, info, info.public_records)


def weights_sources(given: Sequence[str], info: MethodInfo) -> Mapping[str, str]:
    """The file or catalog name of each public input of weights, by name; the method's default
    where none is given. Raises UserError as `public_sources` does."""
    named = _sources(_WEIGHTS, given, info, info.public_weights)
    usual = {entry.name: entry.default for entry in info.public_weights}
    return {name: source for name in usual if (source := named.get(name, usual[name])) is not None}


def name_and_source(words: str) -> tuple[str | None, str]:
    """Which input is named, if one is, and what is given for it.

    >>> name_and_source("faces=hf:a/b"), name_and_source("./faces=2")
    (('faces', 'hf:a/b'), (None, './faces=2'))
    """
    named = _NAMED.fullmatch(words)
    return (None, words) if named is None else (named[1], named[2])


def _sources(
    option: _Option,
    given: Sequence[str],
    info: MethodInfo,
    known: Sequence[PublicRecords | PublicWeights],
) -> dict[str, str]:
    if given and not known:
        raise UserError(f"{info.name} uses no {option.what}; leave {option.flag} out.")
    found: dict[str, str] = {}
    for words in given:
        name, source = _assigned(option, words, info, [entry.name for entry in known])
        if name in found:
            raise UserError(f"{option.flag} gives {name!r} of {info.name} twice; give it once.")
        found[name] = source
    for entry in known:
        usual = entry.default if isinstance(entry, PublicWeights) else None
        if entry.needed and usual is None and entry.name not in found:
            raise _missing(option, info, entry, alone=len(known) == 1)
    return found


def _assigned(
    option: _Option, words: str, info: MethodInfo, known: Sequence[str]
) -> tuple[str, str]:
    """The input of the method that these words are for, and the source that they give."""
    name, source = name_and_source(words)
    if not source:
        example = f"{name or known[0]}={option.value}"
        raise UserError(f"{option.flag} {words!r} gives nothing; write {example}.")
    if name is None and len(known) == 1:
        name = known[0]
    if name is None:
        raise UserError(
            f"{option.flag} {words} does not say which {option.what} of {info.name} that is; write "
            f"{' or '.join(f'{one}={option.value}' for one in known)}."
        )
    if name not in known:
        raise UserError(
            f"{option.flag}: {info.name} takes no {option.what} called {name!r}; "
            f"{did_you_mean(name, known)}"
        )
    return name, source


def _missing(
    option: _Option, info: MethodInfo, entry: PublicRecords | PublicWeights, *, alone: bool
) -> UserError:
    if alone:
        return UserError(
            f"{info.name} needs {option.what}; name them with {option.flag} {option.value} "
            f"({entry.summary})."
        )
    return UserError(
        f"{info.name} needs {option.what} called {entry.name!r}; name them with "
        f"{option.flag} {entry.name}={option.value} ({entry.summary})."
    )
