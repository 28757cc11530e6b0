"""What a collection has in common with every release: gate, signature, provenance."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.samples import refused
from tests.federated.scene import contribution, encoder, user
from understudy.data.schema import Attribute
from understudy.encoders.encoder import Encoder
from understudy.encoders.file import write_encoder
from understudy.encoders.provenance import Provenance
from understudy.federated.agreement import Agreement
from understudy.federated.collected_table import table_problems
from understudy.federated.collection import folder_refusals, write_collection
from understudy.federated.collection_card import collection_card
from understudy.federated.collection_check import verify_any, verify_collection
from understudy.federated.collection_claim import CLAIM, CollectionClaim, SentLabel
from understudy.federated.merging import Gathering
from understudy.federated.terms import WeakestPromise, terms_of
from understudy.privacy.local.channel import LocalChannel
from understudy.release.layout import ONLY_TABLE as TABLE
from understudy.release.manifest import MANIFEST, file_hashes, manifest_bytes
from understudy.release.signing import make_keys
from understudy.release.strict_json import readable_bytes

REVEALED = Provenance("scans of a clinic", "revealed", math.inf)
CARD = "README.md"


def merged_of(made: Encoder, content: str = "latents"):
    agreement = Agreement.of(made, content)
    gathering = Gathering.under(agreement)
    gathering.take("me", lambda: user().contribute(made, agreement))
    return gathering.merged()


@pytest.fixture(scope="module")
def merged():
    return merged_of(encoder())


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    place = tmp_path_factory.mktemp("keys")
    for name in ("mine", "theirs"):
        make_keys(place / name, place / f"{name}.public")
    return place


@pytest.fixture
def signed(tmp_path, merged, keys):
    write_collection(tmp_path / "out", merged, encoder(), "A title", keys / "mine")
    return tmp_path / "out"


@pytest.fixture
def plain(tmp_path, merged):
    write_collection(tmp_path / "plain", merged, encoder(), "A title")
    return tmp_path / "plain"


def forge(folder, name, content):
    """Change a file and the manifest with it, as whoever tampers would."""
    (folder / name).write_bytes(content)
    (folder / MANIFEST).write_bytes(manifest_bytes(file_hashes(folder)))


# Signatures.


def test_a_signature_vouches_for_a_collection(signed, keys):
    found = verify_any(signed, key=keys / "mine.public")
    assert (found.problems, found.verdict) == ((), "consistent and authenticated")
    unasked = verify_any(signed)
    assert unasked.ok
    assert not unasked.authenticated
    assert any("which no --key vouches for" in note for note in unasked.notes)


def test_another_key_or_no_signature_vouches_for_nothing(signed, plain, keys):
    assert any("another key" in p for p in verify_any(signed, key=keys / "theirs.public").problems)
    assert any("not signed" in p for p in verify_any(plain, key=keys / "mine.public").problems)


@pytest.mark.parametrize("name", [CARD, CLAIM, TABLE])
def test_tampering_after_signing_is_refused(signed, keys, name):
    content = (signed / name).read_bytes()
    (signed / name).write_bytes(content + b" ")
    assert any("was changed" in p for p in verify_any(signed).problems)
    forge(signed, name, content + b" ")
    problems = verify_any(signed, key=keys / "mine.public").problems
    assert any("signs the digest" in p for p in problems)
    forge(signed, name, content)
    assert verify_any(signed, key=keys / "mine.public").authenticated


def test_a_key_that_cannot_sign_leaves_nothing(tmp_path, merged, keys):
    (keys / "mine.public").chmod(0o600)
    with refused("private key"):
        write_collection(tmp_path / "x", merged, encoder(), "A title", keys / "mine.public")
    assert list(tmp_path.iterdir()) == []


# The gate.


def refusals(folder, merged):
    return " ".join(folder_refusals(folder, CollectionClaim.of(merged)))


def test_a_clean_collection_passes_the_gate(plain, merged):
    assert refusals(plain, merged) == ""


@pytest.mark.parametrize("name", [CARD, TABLE])
def test_a_pickle_is_refused(plain, merged, name):
    data = (plain / name).read_bytes()
    (plain / name).write_bytes(data[:4] + pickle.dumps({"a": REVEALED}) + data[4:])
    if name == TABLE:
        assert f"{name} may hold a pickle" in " ".join(_gate_of_files(plain))
    else:
        assert f"{name} may hold a pickle" in refusals(plain, merged)


def _gate_of_files(folder):
    from understudy.release.leaks import file_refusals

    return [f"{TABLE} {r}" for r in file_refusals(folder / TABLE, TABLE, (CLAIM,))]


def test_paths_owner_only_keys_and_strange_files_are_refused(plain, merged):
    said = json.loads((plain / CLAIM).read_text())
    said["versions"] = {"source_path": "/" + "home/ann/scans", "row_ids": [3, 1]}
    (plain / CLAIM).write_text(json.dumps(said))
    (plain / "left-out.json").write_text("{}")
    found = refusals(plain, merged)
    assert "'row_ids'" in found
    assert "path of the owner's machine" in found
    assert "left-out.json does not belong" in found


def test_a_column_that_names_people_is_refused(plain, merged):
    records = CollectionClaim.of(merged).records
    labels = (*records.labels, SentLabel(Attribute("patient_id", ("a",)), 1))
    claim = replace(CollectionClaim.of(merged), records=replace(records, labels=labels))
    assert "'patient_id' tells records" in " ".join(folder_refusals(plain, claim))


def test_an_encoder_that_names_a_place_closes_the_gate(tmp_path):
    made = encoder().with_provenance(Provenance("/" + "home/ann/scans", "public", 0.0))
    with refused("no release was written", "home/ann/scans"):
        write_collection(tmp_path / "x", merged_of(made), made, "A title")
    assert list(tmp_path.iterdir()) == []


def edited(path, column, values):
    table = pq.read_table(path)
    place = table.column_names.index(column)
    kind = table.schema.field(column).type
    pq.write_table(table.set_column(place, table.schema.field(column), [values(kind)]), path)


@pytest.mark.parametrize(
    ("column", "values", "word"),
    [
        ("row", lambda kind: pa.array([7] * 60, kind), "codes outside"),
        ("row", lambda kind: pa.array([None] * 60, kind), "there for 0 records"),
        ("latent", lambda kind: pa.array([[1.0, 2.0]] * 60, kind), "not 3 finite"),
        ("latent", lambda kind: pa.array([[math.nan] * 3] * 60, kind), "not 3 finite"),
        ("latent", lambda kind: pa.array([None] * 60, kind), "without features"),
    ],
)
def test_values_that_the_claim_does_not_allow_are_seen(plain, column, values, word):
    edited(plain / TABLE, column, values)
    problems = verify_any(plain).problems
    forge(plain, TABLE, (plain / TABLE).read_bytes())
    assert any("was changed" in p for p in problems)
    assert any(word in p for p in verify_any(plain).problems)


def test_an_image_with_a_file_name_is_seen(tmp_path):
    made = encoder()
    pictures = merged_of(made, "images")
    write_collection(tmp_path / "out", pictures, made, "Pictures")
    table = pq.read_table(tmp_path / "out" / TABLE)
    named = [{**one, "path": "ann.png"} for one in table.column("image").to_pylist()]
    edited(tmp_path / "out" / TABLE, "image", lambda kind: pa.array(named, kind))
    found = table_problems(tmp_path / "out" / TABLE, CollectionClaim.of(pictures).records)
    assert found == ["the table holds an image that carries a file name."]


def test_a_card_that_says_more_than_the_claim_is_seen(plain):
    text = (plain / CARD).read_bytes()
    forge(plain, CARD, text + b"\nNobody can be recognised.\n")
    assert any("README.md says something else" in p for p in verify_any(plain).problems)
    forge(plain, CARD, text)
    assert verify_any(plain).ok


# Where the encoder comes from.


def test_revealed_training_data_are_in_every_claim(tmp_path):
    """Epsilon infinite for them: in what a user sends, in the collection and on its card."""
    made = encoder().with_provenance(REVEALED)
    sent = user().contribute(made, Agreement.of(made)).statement()
    for said in (sent, CollectionClaim.of(merged_of(made)).to_json()):
        cited = said["encoder"]
        assert cited["digest"] == made.digest
        assert cited["provenance"]["epsilon"] == "infinity", "an encoder without its epsilon"
        assert "epsilon is infinite" in cited["provenance"]["statement"]
    write_collection(tmp_path / "out", merged_of(made), made, "A title")
    claim = json.loads((tmp_path / "out" / CLAIM).read_text())
    assert REVEALED.statement in claim["statement"], "a claim that does not cite its encoder"
    assert REVEALED.statement in (tmp_path / "out" / CARD).read_text()


@pytest.mark.parametrize("channel", [None, LocalChannel(2.0, 1.0, 1e-6, {"row": 1.0})])
def test_no_claim_can_be_built_without_it(channel):
    terms = terms_of([replace(contribution(0, count=10), channel=channel)])
    with pytest.raises(TypeError, match="encoder"):
        WeakestPromise.of(terms)  # type: ignore[call-arg]
    whole = contribution(0, count=10).statement()
    from understudy.federated.contribution import read_statement

    with refused("encoder"):
        read_statement({k: v for k, v in whole.items() if k != "encoder"})


def test_a_collection_of_another_encoder_is_not_written(tmp_path, merged):
    with refused("another encoder"):
        write_collection(tmp_path / "x", merged, encoder().with_provenance(REVEALED), "A title")


def test_the_verifier_holds_the_claim_against_the_encoder(tmp_path, plain):
    """A whole forgery that agrees with itself is seen by whoever has the encoder's file."""
    made, other = encoder().with_provenance(REVEALED), encoder(radius=1.0)
    write_encoder(tmp_path / "revealed", made)
    write_encoder(tmp_path / "right", encoder())
    write_encoder(tmp_path / "other", other)
    assert verify_any(plain, encoder=tmp_path / "right").ok
    assert any("--encoder" in note for note in verify_any(plain).notes)
    for name in ("revealed", "other"):
        problems = verify_any(plain, encoder=tmp_path / name).problems
        assert any("made with the encoder" in p for p in problems), name
    forged = whitewashed(tmp_path, made)
    assert verify_any(forged).ok, "it agrees with itself"
    problems = verify_any(forged, encoder=tmp_path / "revealed").problems
    assert any("training data" in p for p in problems)


def whitewashed(tmp_path, made):
    """A collection of a revealed encoder whose every word says that it learnt from public data."""
    found = merged_of(made)
    write_collection(tmp_path / "forged", found, made, "A title")
    public = replace(found.agreement.encoder, provenance=encoder().provenance)
    claim = CollectionClaim.of(replace(found, agreement=replace(found.agreement, encoder=public)))
    forge(tmp_path / "forged", CLAIM, claim.to_bytes())
    forge(tmp_path / "forged", CARD, collection_card(claim, "A title"))
    return tmp_path / "forged"


def test_a_claim_without_provenance_does_not_verify(plain):
    said = json.loads((plain / CLAIM).read_text())
    del said["encoder"]["provenance"]
    forge(plain, CLAIM, json.dumps(said).encode())
    assert any("cannot be understood" in p for p in verify_any(plain).problems)


def test_another_machine_s_last_digits_are_no_problem():
    from understudy.federated.collection_claim import claim_problems

    made = encoder()
    local = replace(contribution(0), channel=LocalChannel(2.0, 1.0, 1e-6, {"row": 1.0}))
    gathering = Gathering.under(Agreement.of(made))
    gathering.take("me", lambda: local)
    claim = CollectionClaim.of(gathering.merged())
    said = claim.promise

    def problems(**changes):
        return claim_problems(replace(claim, promise=replace(said, **changes)))

    near = said.user_epsilon * (1 + 1e-9)
    assert problems(user_epsilon=near, accountant=said.accountant + ".1") == []
    assert any("user_epsilon" in p for p in problems(user_epsilon=said.user_epsilon * 0.99))
    assert any("accountant" in p for p in problems(accountant="guessing"))


def spoilt(value, place=()):
    """The same JSON with one value after the other replaced by what has no business there."""
    for odd in (None, [{}], -1, 1e308):
        yield place, odd
    if isinstance(value, dict | list):
        for key, held in value.items() if isinstance(value, dict) else enumerate(value):
            yield from spoilt(held, (*place, key))


def with_at(value, place, odd):
    if not place:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = with_at(copy[place[0]], place[1:], odd)
    return copy


def test_a_hostile_claim_is_a_problem_and_never_a_crash(tmp_path):
    made = encoder()
    local = replace(contribution(0), channel=LocalChannel(2.0, 1.0, 1e-6, {"row": 1.0}))
    gathering = Gathering.under(Agreement.of(made))
    gathering.take("me", lambda: local)
    write_collection(tmp_path / "out", gathering.merged(), made, "A title")
    claim = json.loads((tmp_path / "out" / CLAIM).read_text())
    tried = 0
    for place, odd in spoilt(claim):
        forge(tmp_path / "out", CLAIM, readable_bytes(with_at(claim, place, odd)))
        unchanged = with_at(claim, place, odd) == claim
        found = verify_collection(tmp_path / "out", encoder=made)
        assert found.ok == unchanged, (place, odd)
        tried += 1
    assert tried > 150
