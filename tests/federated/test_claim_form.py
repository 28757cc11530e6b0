"""What a forged claim must not get away with: impossible terms, uncovered labels, stowaways."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.federated.scene import contribution, encoder
from understudy.data.schema import Attribute
from understudy.federated.agreement import Agreement
from understudy.federated.collection import write_collection
from understudy.federated.collection_card import collection_card
from understudy.federated.collection_check import verify_collection
from understudy.federated.collection_claim import CLAIM, CollectionClaim, SentLabel, claim_problems
from understudy.federated.merging import Gathering
from understudy.federated.terms import Term
from understudy.privacy.local.channel import LocalChannel
from understudy.release.documents import read_document
from understudy.release.layout import ONLY_TABLE as TABLE
from understudy.release.manifest import MANIFEST, file_hashes, manifest_bytes
from understudy.release.strict_json import readable_bytes

CHANNEL = LocalChannel(2.0, 1.0, 1e-6, {"row": 1.0})


def merged_of(*channels: LocalChannel | None):
    """One user per channel, of 60 records each; all of them send the label `row`."""
    gathering = Gathering.under(Agreement.of(encoder()))
    for seed, channel in enumerate(channels):
        one = replace(contribution(seed), channel=channel)
        gathering.take(f"user {seed}", lambda one=one: one)
    return gathering.merged()


@pytest.fixture(scope="module")
def merged():
    return merged_of(CHANNEL)


@pytest.fixture
def folder(tmp_path, merged):
    write_collection(tmp_path / "out", merged, encoder(), "A title")
    return tmp_path / "out"


def problems_with(folder, data: bytes, name: str = CLAIM) -> str:
    """What the verifier says of a collection with this file, its manifest and card to match.

    A claim that cannot be read has no card to match, and that is what is said of it.
    """
    (folder / name).write_bytes(data)
    claim, _ = read_document(folder, CLAIM, CollectionClaim.from_bytes)
    if claim is not None:
        (folder / "README.md").write_bytes(collection_card(claim, "A title"))
    (folder / MANIFEST).write_bytes(manifest_bytes(file_hashes(folder)))
    return " ".join(verify_collection(folder, encoder=encoder()).problems)


# Terms that no users can have sent under.


@pytest.mark.parametrize(
    ("users", "records", "most", "possible"),
    [
        (1, 60, 60, True),
        (1, 60, 1, False),
        (1, 60, 61, False),
        (3, 10, 4, True),
        (3, 10, 3, False),
        (3, 10, 8, True),
        (3, 10, 9, False),
        (3, 3, 1, True),
        (3, 2, 1, False),
        (0, 0, 0, False),
        (-1, -1, -1, False),
        (True, 60, 60, False),
    ],
)
def test_the_most_records_of_a_user_must_be_possible(users, records, most, possible):
    """A user's epsilon follows from them: too few would understate it."""
    said = {**Term(1, 60, 60, CHANNEL).to_json(), "users": users}
    said |= {"records": records, "most_records": most}
    if possible:
        assert Term.from_json(said).most_records == most
    else:
        with pytest.raises(ValueError, match="term"):
            Term.from_json(said)


def test_an_understated_price_of_a_user_does_not_verify(folder, merged):
    """Every figure and sentence follows from the forged terms; only the terms cannot be."""
    forged = replace(merged, terms=(replace(merged.terms[0], most_records=1),))
    claim, right = CollectionClaim.of(forged), CollectionClaim.of(merged)
    assert claim.promise.user_epsilon < right.promise.user_epsilon / 10
    assert "no users can have sent" in problems_with(folder, claim.to_bytes())
    assert problems_with(folder, right.to_bytes()) == ""


# Labels that no term covers.


def labels_of(claim: CollectionClaim, labels: list[tuple[str, int]]) -> CollectionClaim:
    listed = tuple(SentLabel(Attribute(name, ("no", "yes")), count) for name, count in labels)
    return replace(claim, records=replace(claim.records, labels=listed))


@pytest.mark.parametrize(
    ("channels", "labels", "word"),
    [
        ((CHANNEL,), [("row", 60)], None),
        ((CHANNEL, None), [("row", 60)], None),
        ((CHANNEL, None), [("row", 120), ("side", 60)], None),
        ((CHANNEL,), [], "'row' was sent under its terms"),
        ((CHANNEL,), [("row", 59)], "cover 60 to 60"),
        ((CHANNEL,), [("row", 60), ("side", 60)], "cover 0 to 0"),
        ((CHANNEL, None), [("row", 59)], "cover 60 to 120"),
        ((CHANNEL, None), [("row", 120), ("side", 61)], "cover 0 to 60"),
        ((None,), [("row", 60), ("side", 0)], "'side' is there for 0"),
        ((CHANNEL,), [("row", 60), ("row", 60)], "twice"),
    ],
)
def test_labels_are_those_of_the_terms(channels, labels, word):
    """A label beside a local claim that no epsilon covers would leave as it is, unsaid."""
    found = claim_problems(labels_of(CollectionClaim.of(merged_of(*channels)), labels))
    if word is None:
        assert found == []
    else:
        assert word in " ".join(found), "a label that no term covers"


def test_public_labels_are_covered_too():
    claim = CollectionClaim.of(merged_of(LocalChannel(2.0, 1.0, 1e-6, {}, ("row",))))
    assert claim_problems(claim) == []
    assert "is not among its labels" in " ".join(claim_problems(labels_of(claim, [])))


# Stowaways.

Edit = Callable[[dict[str, Any]], object]
STOWAWAYS: dict[str, Edit] = {
    "a key of a label": lambda c: c["records"]["labels"][0].update(note="ann"),
    "a package": lambda c: c["versions"].update(ann="1.0"),
    "words as a version": lambda c: c["versions"].update(torch="2 ann@example.org"),
    "a long version": lambda c: c["versions"].update(torch="1" * 99),
    "an accountant": lambda c: c.update(accountant=c["accountant"] + " by ann"),
    "another content": lambda c: c["records"].update(content="Ann's"),
    "a whole number with a point": lambda c: c["records"].update(count=60.0),
    "yes for one": lambda c: c.update(users=True),
    "another order": lambda c: c.update(format=c.pop("format")),
    "another order of versions": lambda c: c["versions"].update(python=c["versions"].pop("python")),
}


@pytest.mark.parametrize("kind", STOWAWAYS)
def test_a_claim_carries_nothing_of_its_own(folder, kind):
    claim = json.loads((folder / CLAIM).read_text())
    assert problems_with(folder, readable_bytes(claim)) == ""
    STOWAWAYS[kind](claim)
    assert problems_with(folder, readable_bytes(claim)), "a stowaway"


def test_a_claim_has_one_form(folder):
    data = (folder / CLAIM).read_bytes()
    for other in (
        data + b" ",
        data.replace(b'": ', b'":  '),
        json.dumps(json.loads(data)).encode(),
    ):
        assert "canonical form" in problems_with(folder, other)
    assert problems_with(folder, data) == ""


def test_terms_are_listed_once_and_in_order(tmp_path):
    merged = merged_of(CHANNEL, None, replace(CHANNEL, epsilon=2.0))
    write_collection(tmp_path / "out", merged, encoder(), "A title")
    turned = CollectionClaim.of(replace(merged, terms=tuple(reversed(merged.terms))))
    assert "in their order" in problems_with(tmp_path / "out", turned.to_bytes())


def test_bytes_between_columns_and_their_list_are_seen(folder):
    data = (folder / TABLE).read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    found = problems_with(folder, data[:end] + b"ann" + data[end:], TABLE)
    assert "belong to no column" in found
    assert problems_with(folder, data, TABLE) == ""
