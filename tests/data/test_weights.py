"""The catalog of weights: local files first, downloads and digests checked, clear words."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from understudy.data import weights
from understudy.data.weights import (
    WeightsEntry,
    find_weights,
    given_weights,
    place_of,
    weights_catalog,
    weights_entry,
)
from understudy.data.weights_file import FORMATS
from understudy.errors import UserError

CONTENT = b"weights"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ENTRY = WeightsEntry("a", "of a test", "drawn by hand", None, "a.npz", "npz", 7, DIGEST)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder of the variable and the cache folder, both empty; the catalog has one entry."""
    chosen, cache = tmp_path / "chosen", tmp_path / "cache"
    monkeypatch.setenv("UNDERSTUDY_WEIGHTS", str(chosen))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(weights, "weights_catalog", lambda: {"a": ENTRY})
    chosen.mkdir()
    return chosen, cache / "understudy" / "weights"


def served(tmp_path: Path, content: bytes) -> WeightsEntry:
    """The entry, with an address where this content is."""
    (tmp_path / "served.bin").write_bytes(content)
    return replace(ENTRY, address=(tmp_path / "served.bin").as_uri())


@pytest.mark.parametrize("name", weights_catalog())
def test_every_entry_says_what_it_is(name: str) -> None:
    entry = weights_entry(name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name)
    assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
    assert FORMATS[Path(entry.file).suffix] == entry.format
    assert entry.bytes > 0
    assert "trained" in entry.provenance, "where they come from is not said"
    assert entry.licence is None or entry.licence
    assert len({e.file for e in weights_catalog().values()}) == len(weights_catalog())


@pytest.mark.data
@pytest.mark.parametrize("name", weights_catalog())
def test_what_is_on_this_machine_is_what_the_catalog_says(name: str) -> None:
    entry = weights_entry(name)
    place = place_of(entry)
    if place is None:
        pytest.skip(f"{entry.file} is not under $UNDERSTUDY_WEIGHTS")
    assert find_weights(entry).path == place
    assert place.stat().st_size == entry.bytes


def test_an_unknown_name_is_answered_with_the_right_ones() -> None:
    with pytest.raises(UserError, match=r"no weights 'teaf2' in the catalog; did you mean taef2\?"):
        weights_entry("teaf2")


def test_the_chosen_folder_goes_before_the_cache(folders: tuple[Path, Path]) -> None:
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "a.npz").write_bytes(CONTENT)
    assert find_weights(ENTRY).path == folders[0] / "a.npz"
    (folders[0] / "a.npz").unlink()
    assert find_weights(ENTRY).path == folders[1] / "a.npz"


def test_missing_weights_without_an_address(folders: tuple[Path, Path]) -> None:
    del folders
    with pytest.raises(UserError, match=r"a.npz were not found; put the file into \$UNDERSTUDY"):
        find_weights(ENTRY)
    told = replace(ENTRY, get="get it from example.org")
    with pytest.raises(UserError, match=r"; get it from example.org, and put it into \$UNDERSTUDY"):
        find_weights(told)


def test_a_file_with_another_digest_is_refused_by_name(folders: tuple[Path, Path]) -> None:
    path = folders[0] / "a.npz"
    path.write_bytes(b"other weights")
    other = hashlib.sha256(b"other weights").hexdigest()
    with pytest.raises(UserError, match=f"{path} have SHA-256 {other}, but a has {DIGEST}"):
        find_weights(ENTRY)


def test_a_download_is_kept_when_its_hash_is_right(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    found = find_weights(served(tmp_path, CONTENT))
    assert found.path == folders[0] / "a.npz"
    assert found.path.read_bytes() == CONTENT
    assert [p.name for p in folders[0].iterdir()] == ["a.npz"]


def test_a_download_with_another_hash_is_not_kept(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"but a has {DIGEST}; it was not kept"):
        find_weights(served(tmp_path, b"something else"))
    assert list(folders[0].iterdir()) == []


def test_offline_the_error_says_what_to_put_where(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    entry = replace(ENTRY, address=(tmp_path / "nowhere.bin").as_uri())
    with pytest.raises(UserError, match=r"could not be downloaded .* put it into \$UNDERSTUDY"):
        find_weights(entry)
    assert list(folders[0].iterdir()) == []


class TestGiven:
    def test_a_name_of_the_catalog_is_its_file(self, folders: tuple[Path, Path]) -> None:
        (folders[0] / "a.npz").write_bytes(CONTENT)
        assert given_weights("a") == find_weights(ENTRY)

    def test_a_file_that_the_catalog_knows_is_called_as_there(
        self, folders: tuple[Path, Path], tmp_path: Path
    ) -> None:
        del folders
        (tmp_path / "copy.npz").write_bytes(CONTENT)
        found = given_weights(str(tmp_path / "copy.npz"))
        assert (found.name, found.provenance) == ("a", "drawn by hand")

    def test_an_owners_file_is_called_a_declaration_and_its_folder_is_not_told(
        self, folders: tuple[Path, Path], tmp_path: Path
    ) -> None:
        del folders
        (tmp_path / "mine.safetensors").write_bytes(b"mine")
        found = given_weights(str(tmp_path / "mine.safetensors"))
        assert found.provenance.startswith("declared public by the owner")
        assert (found.name, found.licence, found.format) == (
            "mine.safetensors",
            None,
            "safetensors",
        )
        assert found.sha256 == hashlib.sha256(b"mine").hexdigest()

    def test_other_weights_under_a_name_of_the_catalog_are_refused(
        self, folders: tuple[Path, Path], tmp_path: Path
    ) -> None:
        del folders
        (tmp_path / "a.npz").write_bytes(b"mine")
        with pytest.raises(UserError, match=f"but a of the catalog, .* has {DIGEST}; rename it"):
            given_weights(str(tmp_path / "a.npz"))

    def test_what_is_neither_a_file_nor_a_name(self, folders: tuple[Path, Path]) -> None:
        del folders
        with pytest.raises(UserError, match="b is neither a file nor in the catalog of weights"):
            given_weights("b")

    def test_a_file_of_no_known_form(self, folders: tuple[Path, Path], tmp_path: Path) -> None:
        del folders
        (tmp_path / "w.pkl").write_bytes(b"mine")
        with pytest.raises(UserError, match=r"its name must end in \.safetensors, \.npz"):
            given_weights(str(tmp_path / "w.pkl"))
