"""Public weights known by name: what they are, where they may lie, how to get them.

Facts about each are in `weights.yaml`. A file is looked for in `$UNDERSTUDY_WEIGHTS`, then in the
user's cache folder, and downloaded where the catalog has an address. Its digest is compared every
time: nothing else is ever handed on under a name of the catalog.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from understudy.data.weights_file import WeightsFile, digest_of, format_of
from understudy.durable import replacing
from understudy.errors import UserError, did_you_mean, home_expanded

VARIABLE = "UNDERSTUDY_WEIGHTS"
DECLARED = "declared public by the owner; what they were trained on is not stated"
"""Where weights come from that the catalog does not know."""

_PIECE = 1 << 20


@dataclass(frozen=True)
class WeightsEntry:
    """One entry of the catalog of weights.

    provenance: what they were trained on, and by whom, for a claim to repeat.
    licence: None where it is unknown. format: how the file is written. bytes: its size.
    get: in words, how to come by the file. address: where it can be downloaded as it is.
    """

    name: str
    summary: str
    provenance: str
    licence: str | None
    file: str
    format: str
    bytes: int
    sha256: str
    get: str = ""
    address: str | None = None


@functools.cache
def weights_catalog() -> Mapping[str, WeightsEntry]:
    """Every file of weights known by name."""
    import yaml  # here: what a method is given must be importable without it

    text = files("understudy.data").joinpath("weights.yaml").read_text(encoding="utf-8")
    return {name: WeightsEntry(name, **facts) for name, facts in yaml.safe_load(text).items()}


def weights_entry(name: str) -> WeightsEntry:
    if name not in weights_catalog():
        raise UserError(
            f"no weights {name!r} in the catalog; {did_you_mean(name, weights_catalog())}"
        )
    return weights_catalog()[name]


def place_of(entry: WeightsEntry) -> Path | None:
    """Where the entry's file lies on this machine; its content is not looked at."""
    places = (folder / entry.file for folder in _folders())
    return next((place for place in places if place.is_file()), None)


def find_weights(entry: WeightsEntry) -> WeightsFile:
    """The entry's file, downloaded if it is not here and has an address.

    Guarantee: the file has the digest that the catalog states. A download goes to
    `$UNDERSTUDY_WEIGHTS`, or to the user's cache folder where that is not set, and is kept only
    if it has that digest.
    """
    place = place_of(entry)
    if place is None:
        place = _folders()[0] / entry.file
        _fetch(entry, place)
    found = _described(entry, place)
    found.check()
    return found


def given_weights(words: str) -> WeightsFile:
    """What `--weights` names: an entry of the catalog, or a file that its owner declares public.

    A file that the catalog knows by its digest is called as there. One that is called like a file
    of the catalog and holds something else is refused.
    """
    if words in weights_catalog():
        return find_weights(weights_catalog()[words])
    path = home_expanded(words)
    if not path.is_file():
        raise UserError(
            f"{words} is neither a file nor in the catalog of weights; "
            f"{did_you_mean(words, weights_catalog())}"
        )
    form, sha256 = format_of(path), digest_of(path)
    known = weights_catalog().values()
    for entry in (entry for entry in known if entry.sha256 == sha256):
        return _described(entry, path)
    for entry in (entry for entry in known if entry.file == path.name):
        raise UserError(
            f"{path} has SHA-256 {sha256}, but {entry.name} of the catalog, whose file is called "
            f"so, has {entry.sha256}; rename it if it holds other weights."
        )
    return WeightsFile(path, path.name, sha256, DECLARED, None, form)


def _described(entry: WeightsEntry, place: Path) -> WeightsFile:
    return WeightsFile(
        place, entry.name, entry.sha256, entry.provenance, entry.licence, entry.format
    )


def _folders() -> tuple[Path, ...]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    chosen = os.environ.get(VARIABLE)
    return (*((Path(chosen),) if chosen else ()), cache / "understudy" / "weights")


def _fetch(entry: WeightsEntry, target: Path) -> None:
    if entry.address is None:
        how = f"{entry.get}, and put it" if entry.get else "put the file"
        raise UserError(f"weights {entry.file} were not found; {how} into ${VARIABLE}.")
    try:
        _download(entry, entry.address, target)
    except (URLError, OSError) as error:
        raise UserError(
            f"weights {entry.file} were not found and could not be downloaded ({error}); "
            f"get the file from {entry.address} and put it into ${VARIABLE}."
        ) from error


def _download(entry: WeightsEntry, address: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with urlopen(address, timeout=60) as source, replacing(target) as file:
        while piece := source.read(_PIECE):
            digest.update(piece)
            file.write(piece)
        if digest.hexdigest() != entry.sha256:
            raise UserError(
                f"the file at {address} has SHA-256 {digest.hexdigest()}, but {entry.name} has "
                f"{entry.sha256}; it was not kept."
            )
