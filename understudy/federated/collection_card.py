"""The card of a collection, whose words about privacy are the claim's."""

from __future__ import annotations

from importlib.resources import files

from understudy.federated.collection_claim import CollectionClaim
from understudy.federated.terms import users_in_words
from understudy.release.card import differences, render_card

_TAGS = ["understudy", "collected"]


def collection_card(claim: CollectionClaim, title: str) -> bytes:
    """`README.md`; the licence it names is that of the encoder's training data."""
    template = files("understudy.federated").joinpath("collection.md.j2")
    licence = claim.promise.encoder.provenance.licence
    values = {"claim": claim, "users": users_in_words(claim.users), "licence": licence}
    return render_card(template.read_text(encoding="utf-8"), title, {"tags": _TAGS}, values)


def card_problems(card: bytes, claim: CollectionClaim) -> list[str]:
    """How the card of a collection differs from the one that this claim gives."""
    return differences(card, claim.statement, lambda title, _: collection_card(claim, title))
