"""Words that people will read elsewhere: without places on this machine."""

from __future__ import annotations

import re
from pathlib import PurePath

from understudy.data.catalog import catalog
from understudy.release.leaks import machine_paths

_PLACE = re.compile(r"(?<![\w/:.])(?:file:/+|~[\w.-]*/|[A-Za-z]:[\\/]|/)(?:[\w.+@-]+[\\/])*")
_LEFT_OUT = "(left out: it names places on the machine)"


def hide_places(words: str) -> str:
    """The same words with every absolute path cut to its last part.

    >>> hide_places("cannot read " + "/" + "home/alice/photos/1.png: too short")
    'cannot read .../1.png: too short'
    """
    if not machine_paths(words):
        return words
    shown = _PLACE.sub(".../", words)
    return _LEFT_OUT if machine_paths(shown) else shown


def dataset_name(source: str) -> str:
    """A dataset's name for evidence: a path is cut to its last part.

    An owner's folder that is called as a public dataset is said to be the owner's: its
    figures must not stand among those of the public one.

    >>> dataset_name("mnist"), dataset_name("/" + "data/photos"), dataset_name("hf:owner/name")
    ('mnist', 'photos', 'hf:owner/name')
    >>> dataset_name("/" + "data/mnist")
    'own mnist'
    """
    if not machine_paths(source):
        return source
    name = PurePath(source).name
    return f"own {name}" if name in catalog() else name
