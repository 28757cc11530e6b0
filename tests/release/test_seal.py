"""A folder is sealed once, and every change of its files shows."""

from pathlib import Path

import pytest

from understudy.release.layout import CARD, ONLY_TABLE, RELEASE, Layout
from understudy.release.manifest import MANIFEST, SIGNATURE
from understudy.release.seal import check_seal, seal

KIND = Layout("box", ("box.json",), shards=False)


@pytest.fixture
def box(tmp_path: Path) -> Path:
    for name in (CARD, "box.json", ONLY_TABLE):
        (tmp_path / "box" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "box" / name).write_text(name)
    return tmp_path / "box"


def test_what_was_sealed_holds(box: Path, keys: tuple[Path, Path]) -> None:
    digest = seal(box, None)
    found = check_seal(box, KIND, digest, None)
    assert (found.problems, found.changed, found.digest) == ((), frozenset(), digest)
    assert set(found.hashes) == {CARD, "box.json", ONLY_TABLE}
    assert found.voucher.vouched
    assert not (box / SIGNATURE).exists()
    (box / MANIFEST).unlink()
    assert seal(box, keys[0]) == digest
    assert check_seal(box, KIND, None, keys[1]).voucher.vouched


def test_what_was_changed_is_named_and_never_opened(box: Path) -> None:
    digest = seal(box, None)
    (box / "box.json").write_text("other")
    (box / "more").write_text("x")
    found = check_seal(box, KIND, digest, None)
    assert found.changed == {"box.json", "more"}
    assert "more does not belong in a box." in found.problems
    assert "box.json was changed: its hash is not the listed one." in found.problems


def test_without_a_manifest_nothing_vouches(box: Path) -> None:
    digest = seal(box, None)
    (box / MANIFEST).unlink()
    found = check_seal(box, KIND, digest, None)
    assert found.problems == (f"{MANIFEST} is missing.",)
    assert (found.digest, found.voucher.vouched) == (None, False)
    assert found.changed == set(found.hashes)


def test_a_kind_has_its_own_files() -> None:
    two = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]
    assert RELEASE.tables(["README.md", *reversed(two)]) == two
    assert KIND.tables(two) == []
    assert len(KIND.strangers(two)) == 2
    assert RELEASE.strangers([*two, "claim.json", "box.json"]) == [
        "box.json does not belong in a release."
    ]
    assert f"{ONLY_TABLE} is missing." in KIND.gaps(two)
    assert not [gap for gap in RELEASE.gaps(two) if "data/" in gap]
