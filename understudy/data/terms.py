"""What may be done in public with data, by where they come from."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.data.catalog import catalog
from understudy.data.entry import Terms
from understudy.data.same_source import lead_to_the_same

OWNERS = Terms(True, True, "the owner decides about what is the owner's")


def terms_of(source: str) -> Terms:
    """What may be done with data of this source: a catalog name, a path or a Hub name.

    The terms of a catalog dataset hold under whatever name its files are read; where a source
    leads to several (a folder above them), the strictest. A copy elsewhere is not seen.
    """
    found = [e.terms for e in catalog().values() if lead_to_the_same(source, e.name)]
    return min(found, key=_freedom, default=OWNERS)


def pictures_may_be_shown(sources: Iterable[str]) -> bool:
    """Whether pictures of these data, and of a model of them, may stand in what others see.

    Guarantee: a function of the sources' names and of the catalog; no record decides about it.
    """
    return all(terms_of(source).pictures_shown for source in sources)


def licence_of_models(source: str, licence: str | None) -> str | None:
    """The licence of a source as a model of it must carry it: with a ban to hand it on, if so."""
    terms = terms_of(source)
    if terms.models_shipped:
        return licence
    ban = f"a model of it is not to be handed on, because {terms.because}"
    return ban if licence is None else f"{licence}; {ban}"


def _freedom(terms: Terms) -> tuple[bool, bool]:
    return terms.pictures_shown, terms.models_shipped
