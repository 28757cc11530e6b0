from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.data.samples import refused
from tests.federated.scene import SCHEMA, contribution, encoder
from understudy.encoders.citation import Citation
from understudy.federated.agreement import Agreement
from understudy.federated.collection import write_collection
from understudy.federated.collection_check import verify_any
from understudy.federated.collection_claim import CLAIM
from understudy.federated.merging import NOT_SENT, Gathering
from understudy.federated.sent_folder import digest_of, read_contribution, write_contribution
from understudy.federated.terms import Term, WeakestPromise, terms_of
from understudy.privacy.local.channel import LocalChannel
from understudy.release.layout import ONLY_TABLE as TABLE

CITED = Citation.of(encoder())
GOOD = LocalChannel(2.0, 1.0, 1e-6, {"row": 1.0})
WEAK = LocalChannel(2.0, 4.0, 1e-5, {"row": 0.5})


@pytest.fixture(scope="module")
def sent():
    return contribution(0), contribution(1, hide="row", keep=("side",), count=30)


def gathered(*contributions):
    gathering = Gathering.under(Agreement.of(encoder()))
    for number, one in enumerate(contributions):
        gathering.take(f"user {number}", lambda one=one: one)
    return gathering


def test_everybody_is_in_it_and_nothing_says_who_is_who(sent):
    merged = gathered(*sent).merged()
    rows = np.concatenate([c.records.features for c in sent])
    assert merged.features.shape == rows.shape
    assert not np.array_equal(merged.features, rows)
    assert np.array_equal(np.sort(merged.features, axis=0), np.sort(rows, axis=0))
    where = {row.tobytes(): i for i, row in enumerate(merged.features)}
    for one in sent:
        at = [where[row.tobytes()] for row in one.records.features]
        for name in SCHEMA.names:
            wanted = one.records.attributes.get(name)
            if name in merged.labels:
                got = merged.labels[name][at]
                assert (
                    np.array_equal(got, wanted) if wanted is not None else (got == NOT_SENT).all()
                )
    assert sorted(merged.labels) == ["row", "side"]


def test_the_order_is_another_each_time(sent):
    one, two = (gathered(*sent).merged().features for _ in range(2))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("error", [ValueError, KeyError, TypeError, MemoryError, OSError, EOFError])
def test_whatever_reading_raises_leaves_out_that_user_only(sent, error):
    def broken():
        raise error("x" * 5000)

    gathering = gathered(sent[0])
    assert not gathering.take("mallory", broken)
    assert gathering.merged().users == 1
    assert gathering.left_out[0].name == "mallory"
    assert len(gathering.left_out[0].reason) < 400


def test_a_contribution_that_comes_twice_counts_once(sent):
    merged = gathered(sent[0], sent[0]).merged()
    assert merged.users == 1
    assert "user 0" in merged.left_out[0].reason


def test_nobody_at_all_is_an_error():
    with refused("nobody"):
        gathered().merged()
    many = gathered()
    for number in range(60):
        many.leave_out(f"user {number}", "it did not answer in time.")
    with refused("user 0: it did", "; user 49: it did not answer in time; and 10 more)."):
        many.merged()


# What may be claimed of it.


def terms(*channels):
    one = contribution(0, count=10)
    return terms_of([replace(one, channel=c) for c in channels])


def test_one_filter_among_them_makes_it_empirical():
    claim = WeakestPromise.of(terms(GOOD, GOOD, None), CITED)
    assert (claim.kind, claim.epsilon, claim.user_epsilon) == ("empirical", math.inf, math.inf)
    assert "Empirical" in claim.words(3)[0]


def test_a_local_claim_is_the_weakest_of_its_users():
    claim = WeakestPromise.of(terms(GOOD, WEAK, GOOD), CITED)
    assert (claim.kind, claim.epsilon, claim.delta) == ("local", 4.5, 1e-5)
    assert WeakestPromise.of(terms(GOOD), CITED).epsilon == 2.0
    assert [t.users for t in terms(GOOD, WEAK, GOOD)] in ([2, 1], [1, 2])


def test_the_records_of_one_user_compose():
    few, many = (
        WeakestPromise.of(
            [Term(1, count, count, LocalChannel(2.0, 1.0, 1e-6, {"row": 0.5}))], CITED
        )
        for count in (1, 100)
    )
    assert few.user_epsilon == pytest.approx(1.5, rel=1e-3)
    assert many.epsilon == few.epsilon == 1.5
    # Labels add up to 50; latents are one Gaussian release of ten times the sensitivity.
    assert 50 + 10 < many.user_epsilon < 50 + 100


def test_labels_declared_public_are_named():
    channel = LocalChannel(2.0, 1.0, 1e-6, {}, ("row",))
    claim = WeakestPromise.of(terms(channel), CITED)
    assert claim.assumed_public == ("row",)
    assert any("row" in line for line in claim.words(1))


# The folder.


def collected(tmp_path, *contributions):
    write_collection(tmp_path / "out", gathered(*contributions).merged(), encoder(), "A title")
    return tmp_path / "out"


def test_the_folder_holds_together_and_opens_as_a_table(tmp_path, sent):
    folder = collected(tmp_path, *sent)
    found = verify_any(folder)
    assert found.problems == ()
    assert verify_any(folder, digest=found.digest).authenticated
    table = pq.read_table(folder / TABLE)
    assert table.column_names == ["latent", "row", "side"]
    assert table.column("row").null_count == 30
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["row"] == {"names": ["no", "yes"], "_type": "ClassLabel"}
    text = "".join(p.read_text() for p in folder.iterdir() if p.is_file())
    assert "user 0" not in text


def test_datasets_loads_it(tmp_path, sent):
    datasets = pytest.importorskip("datasets", reason="the extra hub")
    folder = collected(tmp_path, *sent)
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))["train"]
    assert len(loaded) == 90
    assert len(loaded[0]["latent"]) == 3
    assert sum(row is None for row in loaded["row"]) == 30


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        (lambda c: {**c, "kind": "local", "epsilon": 1.0}, "kind"),
        (lambda c: {**c, "statement": ["All is private."]}, "statement"),
        (lambda c: {**c, "users": 7}, "users"),
        (lambda c: {**c, "terms": []}, "cannot be understood"),
        (lambda c: {**c, "note": "private"}, "note"),
        (lambda c: {k: v for k, v in c.items() if k != "scope"}, "scope"),
        (lambda c: {**c, "records": {**c["records"], "count": 91}}, "records"),
    ],
)
def test_a_claim_that_its_terms_do_not_support_is_seen(tmp_path, sent, edit, word):
    folder = collected(tmp_path, *sent)
    said = json.loads((folder / CLAIM).read_text())
    (folder / CLAIM).write_text(json.dumps(edit(said)))
    problems = verify_any(folder).problems
    assert any("was changed" in p for p in problems)
    assert any(word in p for p in problems)


def test_a_strange_file_is_seen(tmp_path, sent):
    folder = collected(tmp_path, *sent)
    (folder / "raw.npy").write_bytes(b"")
    assert any("raw.npy" in p for p in verify_any(folder).problems)
    with refused("digest"):
        verify_any(folder, digest="abc")


def test_images_become_pictures(tmp_path):
    from tests.federated.scene import user

    made = encoder()
    agreement = Agreement.of(made, "images")
    gathering = Gathering.under(agreement)
    gathering.take("me", lambda: user().contribute(made, agreement))
    write_collection(tmp_path / "out", gathering.merged(), made, "Pictures")
    assert pq.read_table(tmp_path / "out" / TABLE).column_names == ["image", "row"]
    assert verify_any(tmp_path / "out").ok


# What one user's folder looks like, and how it can be spoilt.


def test_a_folder_is_read_back(tmp_path, sent):
    digest = write_contribution(tmp_path / "a", sent[0])
    back = read_contribution(tmp_path / "a", Agreement.of(encoder()))
    assert digest_of(back.statement(), back.arrays()) == digest
    assert np.array_equal(back.records.features, sent[0].records.features)
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "sent.safetensors",
        "statement.json",
    ]
    listed = json.loads((tmp_path / "a" / "statement.json").read_text())["arrays"]
    assert [a["name"] for a in listed] == ["features", "label:row"]


def flip(folder: Path) -> None:
    data = bytearray((folder / "sent.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "sent.safetensors").write_bytes(data)


SPOILT = {
    "a flipped bit": flip,
    "arrays gone": lambda f: (f / "sent.safetensors").unlink(),
    "no safetensors": lambda f: (f / "sent.safetensors").write_bytes(b"garbage"),
    "no json": lambda f: (f / "statement.json").write_bytes(b"{"),
    "another statement": lambda f: (f / "statement.json").write_text(
        (f / "statement.json").read_text().replace('"count": 60', '"count": 61')
    ),
    "a file too many": lambda f: (f / "raw.npy").write_bytes(b""),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_spoilt_folder_is_refused(tmp_path, sent, kind):
    write_contribution(tmp_path / "a", sent[0])
    SPOILT[kind](tmp_path / "a")
    with refused():
        read_contribution(tmp_path / "a", Agreement.of(encoder()))
