"""Whether an owner's own names say that records belong to persons.

Only names are looked at: those of columns, and folders in class folders. How often a value
repeats is never counted, because a warning must not depend on the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


def person_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Those of these columns whose name is a word for a person, alone or with one for a key.

    >>> person_columns(["label", "Patient_ID", "subjectId", "person", "patient age", "personal"])
    ('Patient_ID', 'subjectId', 'person')
    """
    return tuple(name for name in names if _names_a_person(name))


def _names_a_person(name: str) -> bool:
    persons, keys = _words()
    words = [word.lower() for word in _WORD.findall(name)]
    return any(word in persons for word in words) and all(w in persons | keys for w in words)


@cache
def _words() -> tuple[frozenset[str], frozenset[str]]:
    import yaml

    text = files("understudy.data").joinpath("persons.yaml").read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    return frozenset(found["persons"]), frozenset(found["keys"])
