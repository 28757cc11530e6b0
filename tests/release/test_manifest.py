import hashlib
import subprocess
from pathlib import Path

from understudy.release.manifest import (
    digest_of,
    file_hashes,
    listed_files,
    manifest_bytes,
    parse_manifest,
)


def test_manifest_is_what_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b.txt").write_bytes(b"b")
    (tmp_path / "a.txt").write_bytes(b"a")
    manifest = manifest_bytes(file_hashes(tmp_path))
    (tmp_path / "manifest.sha256").write_bytes(manifest)
    checked = subprocess.run(
        ["sha256sum", "-c", "manifest.sha256"], cwd=tmp_path, capture_output=True, check=False
    )
    assert checked.returncode == 0
    assert manifest.decode().splitlines()[0].endswith("  a.txt")
    assert parse_manifest(manifest)["data/b.txt"] == hashlib.sha256(b"b").hexdigest()
    assert manifest_bytes(parse_manifest(manifest)) == manifest
    assert digest_of(manifest) == hashlib.sha256(manifest).hexdigest()


def test_manifest_and_signature_are_not_in_the_manifest(tmp_path: Path) -> None:
    for name in ("manifest.sha256", "signature.json", "claim.json"):
        (tmp_path / name).write_bytes(b"x")
    assert list(file_hashes(tmp_path)) == ["claim.json"]


def test_links_and_empty_folders_are_seen_but_not_followed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "file").write_bytes(b"x")
    assert listed_files(tmp_path) == ["empty", "file", "link"]
    assert list(file_hashes(tmp_path)) == ["file"]
