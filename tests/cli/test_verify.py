"""`understudy verify`, `keygen` and signing, as a receiver meets them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.workplace import SMALL_MERF, Workplace

RUN = ("synthesize", "digits", *SMALL_MERF, "--epsilon", "1")


@pytest.fixture(scope="module")
def signed(shared_workplace: Workplace) -> Workplace:
    place = shared_workplace
    place.run("keygen", "owner.pem", "owner.pub").succeeded()
    place.run("keygen", "other.pem", "other.pub").succeeded()
    place.run(*RUN, "--sign", "owner.pem", "-o", "signed").succeeded()
    place.run(*RUN, "-o", "plain").succeeded()
    return place


def test_unsigned_is_consistent_not_authenticated(signed: Workplace) -> None:
    said = signed.run("verify", "plain").succeeded().out
    assert said.splitlines()[0] == "consistent, not authenticated"
    assert "epsilon 1.00" in said


def test_the_owners_key_authenticates_and_another_does_not(signed: Workplace) -> None:
    said = signed.run("verify", "signed", "--key", "owner.pub").succeeded().out
    assert said.splitlines()[0] == "consistent and authenticated"
    wrong = signed.run("verify", "signed", "--key", "other.pub")
    assert wrong.code == 1
    assert wrong.out.startswith("not verified")
    assert "other.pub" in wrong.out


def test_a_digest_authenticates_and_another_does_not(signed: Workplace) -> None:
    digest = signed.run("verify", "plain", "--json").json()["digest"]
    assert (
        signed.run("verify", "plain", "--digest", digest)
        .succeeded()
        .out.startswith("consistent and authenticated")
    )
    wrong = signed.run("verify", "plain", "--digest", "0" * 64, "--json")
    assert wrong.code == 1
    assert not wrong.json()["ok"]
    signed.run("verify", "plain", "--digest", "abc").refused("digest", "64")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("claim.json", b'"epsilon": 0.99', b'"epsilon": 0.98'),
        ("README.md", b"synthetic", b"Synthetic"),
        ("ledger.jsonl", b'"reserve"', b'"Reserve"'),
    ],
)
def test_an_edited_release_fails_and_says_where(
    signed: Workplace, tmp_path: Path, file: str, old: bytes, new: bytes
) -> None:
    copy = shutil.copytree(signed / "plain", tmp_path / "copy")
    content = (copy / file).read_bytes()
    assert old in content
    (copy / file).write_bytes(content.replace(old, new, 1))
    said = signed.run("verify", copy)
    assert said.code == 1
    assert said.out.startswith("not verified")
    assert file in said.out


def test_a_ledger_line_less_fails(signed: Workplace, tmp_path: Path) -> None:
    copy = shutil.copytree(signed / "plain", tmp_path / "copy")
    lines = (copy / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "ledger.jsonl").write_bytes(b"".join(lines[:1] + lines[2:]))
    assert signed.run("verify", copy).code == 1


def test_keys_are_not_written_over_and_the_secret_one_is_private(workplace: Workplace) -> None:
    workplace.run("keygen", "a.pem", "a.pub").succeeded()
    assert (workplace / "a.pem").stat().st_mode & 0o777 == 0o600
    before = (workplace / "a.pem").read_bytes()
    workplace.run("keygen", "a.pem", "b.pub").refused("a.pem", "exists")
    workplace.run("keygen", "b.pem", "a.pub").refused("a.pub", "exists")
    workplace.run("keygen", "c.pem", "c.pem").refused("c.pem")
    workplace.run("keygen", "no/d.pem", "d.pub").refused("no/d.pem")
    assert workplace.tree() == {"a.pem", "a.pub"}
    assert (workplace / "a.pem").read_bytes() == before


def test_a_key_that_cannot_sign_is_refused_before_the_run(signed: Workplace) -> None:
    before, entered = signed.tree(), len(signed.book("enter"))
    (signed / "open.pem").write_bytes((signed / "owner.pem").read_bytes())
    (signed / "open.pem").chmod(0o644)
    for key, why in (("none.pem", "none.pem"), ("owner.pub", "owner.pub"), ("open.pem", "600")):
        signed.run(*RUN, "--sign", key, "-o", "never").refused(why)
    (signed / "open.pem").unlink()
    assert signed.tree() == before
    assert len(signed.book("enter")) == entered


def test_no_release_no_verdict(workplace: Workplace) -> None:
    workplace.run("verify", "nothing").refused("nothing")
