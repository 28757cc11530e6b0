"""Which version of the data a cell is about: public by hash, private by a random word."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import drawing
from tests.bench.rig import cell, run_all
from tests.workplace import Workplace
from understudy.bench.suite.cell import Cell
from understudy.bench.work.phase_keys import Keys, phase_keys
from understudy.bench.work.source_version import FILE, Source, SourceVersions, public_hash
from understudy.bench.work.workspace import State, Workspace
from understudy.data.catalog import catalog

KEYS = Keys("a" * 64, "b" * 64, "c" * 64)


def test_public_data_has_a_hash_and_plain_keys() -> None:
    for name in ("digits", "portraits", "mnist"):
        found = public_hash(catalog()[name])
        assert found is not None
        assert len(found) == 64
        source = Source(True, hash=found)
        assert source.salted(KEYS) == KEYS


def test_published_digests_make_the_hash() -> None:
    hashes = {public_hash(catalog()[name]) for name in ("digits", "portraits", "mnist")}
    hashes.add(public_hash(catalog()["fashion-mnist"]))
    assert len(hashes) == 4


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    drawing.class_folder(tmp_path / "photos")
    return tmp_path / "photos"


def word(work: Path, photos: Path) -> str:
    found = SourceVersions(work).of(str(photos))
    assert not found.public
    assert found.hash is None
    assert found.word is not None
    return found.word


def test_a_word_stays_while_the_data_does(tmp_path: Path, photos: Path) -> None:
    first = word(tmp_path / "work", photos)
    assert word(tmp_path / "work", photos) == first
    touched = next(photos.rglob("*.png"))
    os.utime(touched, ns=(1, 1))
    assert word(tmp_path / "work", photos) == first, "touched files are the same data"


def test_changed_data_gets_another_word_and_the_old_data_its_own(
    tmp_path: Path, photos: Path
) -> None:
    first = word(tmp_path / "work", photos)
    victim = next(photos.rglob("*.png"))
    content = victim.read_bytes()
    victim.unlink()
    assert word(tmp_path / "work", photos) != first
    victim.write_bytes(content)
    assert word(tmp_path / "work", photos) == first


def test_words_say_nothing_of_the_data(tmp_path: Path, photos: Path) -> None:
    """Two workspaces see the same data under different words, hence different keys."""
    one, two = (word(tmp_path / name, photos) for name in ("one", "two"))
    assert one != two
    assert Source(False, word=one).salted(KEYS) != Source(False, word=two).salted(KEYS)


def test_the_stamp_is_the_owners(tmp_path: Path, photos: Path) -> None:
    word(tmp_path / "work", photos)
    assert (tmp_path / "work" / FILE).stat().st_mode & 0o777 == 0o600


def test_public_data_without_published_digests_is_known_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else results on other files would count as done."""
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    assert SourceVersions(tmp_path / "work").of("bloodmnist") == Source(True)
    (tmp_path / "bloodmnist").mkdir()
    (tmp_path / "bloodmnist/bloodmnist.npz").write_bytes(b"one")
    first = SourceVersions(tmp_path / "work").of("bloodmnist")
    assert first.public
    assert first.word is None
    assert first.hash is not None
    assert SourceVersions(tmp_path / "elsewhere").of("bloodmnist") == first
    (tmp_path / "bloodmnist/bloodmnist.npz").write_bytes(b"another")
    assert SourceVersions(tmp_path / "work").of("bloodmnist").hash != first.hash
    assert phase_keys(Cell("dp-merf", "bloodmnist", 1.0), data=first.hash)
    monkeypatch.delenv("UNDERSTUDY_DATA")
    monkeypatch.chdir(tmp_path)
    beside = SourceVersions(tmp_path / "work").of("bloodmnist")
    assert beside == Source(True), "a folder of that name beside us is not read"


def test_what_is_not_there_has_no_word(tmp_path: Path) -> None:
    assert SourceVersions(tmp_path).of(str(tmp_path / "nothing")) == Source(False)


def test_private_data_leaves_no_stamp_in_evidence_and_begins_anew_when_changed(
    workplace: Workplace,
) -> None:
    drawing.class_folder(workplace / "photos")
    mine = cell(workplace, dataset=str(workplace / "photos"), limit=None)
    outcome, _, _ = run_all(workplace, mine)
    assert outcome.ok, outcome.standings[0].failure
    stamps = (workplace / "bench" / FILE).read_text()
    texts = [p.read_text() for p in (workplace / "bench/evidence").iterdir()]
    secrets = [part for part in stamps.split('"') if len(part) >= 16 and "/" not in part]
    assert len(secrets) == 4, "a look, a content twice (its own name, and as a key), a word"
    assert not any(secret in text for secret in secrets for text in texts)
    assert not any(str(workplace.folder) in text for text in texts)
    (row,) = (json.loads(text) for text in texts if text.startswith("{\n"))
    assert (row["audience"], row["data"]["hash"]) == ("owner", None)
    next((workplace / "photos").rglob("*.png")).unlink()
    again = Workspace(workplace / "bench").standing(mine)
    assert again.state is State.WAITING
    assert again.folder != outcome.standings[0].folder
    outcome, _, _ = run_all(workplace, mine)
    assert outcome.ok
    assert len(workplace.book("enter")) == 2, "the first run stays in the account book"
