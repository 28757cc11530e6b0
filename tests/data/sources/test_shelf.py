"""Archives are somebody else's files: odd names, lies about sizes, damage."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.data.samples import refused, save
from understudy.data.sources import shelf as shelf_module
from understudy.data.sources.shelf import (
    FolderShelf,
    Shelf,
    TarShelf,
    ZipShelf,
    open_shelf,
    read_one,
)

FILES = {"train/a.txt": b"a" * 700, "train/b.txt": b"bb", "c.txt": b""}


def zipped(files: dict[str, bytes], root: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(root + name, data)
    return buffer.getvalue()


def tarred(files: dict[str, bytes], root: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        for name, data in files.items():
            member = tarfile.TarInfo(root + name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def shelves(folder: Path, root: str = "set/") -> list[Shelf]:
    for name, data in FILES.items():
        save(folder / "set" / name, data)
    packed = tarred(FILES, root)
    return [
        FolderShelf(folder / "set"),
        ZipShelf(save(folder / "x.zip", zipped(FILES, root)), ("", "set")),
        TarShelf(save(folder / "x.tar", packed), ("", "set")),
        TarShelf(save(folder / "x.tar.gz", gzip.compress(packed)), ("", "set")),
        TarShelf(save(folder / "x.tar.xz", lzma.compress(packed)), ("", "set")),
    ]


def test_every_kind_of_shelf_gives_the_same_files(tmp_path):
    names = ["train/b.txt", "c.txt", "train/a.txt"]
    for shelf in shelves(tmp_path):
        assert {names[i]: data for i, data in shelf.read(names)} == FILES
        assert read_one(shelf, "train/b.txt") == b"bb"


def test_a_missing_file_is_named_with_how_many_more(tmp_path):
    for shelf in shelves(tmp_path):
        with refused(str(shelf.place), "lacks train/x.txt and 1 more file"):
            list(shelf.read(["train/a.txt", "train/x.txt", "train/y.txt"]))


def test_the_folder_comes_first_then_the_only_archive(tmp_path):
    assert open_shelf(tmp_path, ["x*.zip"], ["", "set"], "train") is None
    save(tmp_path / "x1.zip", zipped(FILES))
    assert isinstance(open_shelf(tmp_path, ["x*.zip"], ["", "set"], "train"), ZipShelf)
    save(tmp_path / "x2.zip", zipped(FILES))
    with refused("x1.zip and x2.zip", "keep one"):
        open_shelf(tmp_path, ["x*.zip"], ["", "set"], "train")
    save(tmp_path / "set" / "train" / "a.txt", b"")
    found = open_shelf(tmp_path, ["x*.zip"], ["", "set"], "train")
    assert found == FolderShelf(tmp_path / "set")


def test_members_that_point_elsewhere_are_never_followed(tmp_path):
    odd = {"../train/a.txt": b"x", "/etc/passwd": b"x", "C:\\a": b"x", "train/\udc80": b"x"}
    before = sorted(p.name for p in tmp_path.parent.iterdir())
    packed = {**{n: d for n, d in odd.items() if "\udc80" not in n}, **FILES}
    for shelf in (
        ZipShelf(save(tmp_path / "x.zip", zipped(packed))),
        TarShelf(save(tmp_path / "x.tar", tarred({**odd, **FILES}))),
    ):
        assert dict(shelf.read(["train/a.txt"])) == {0: FILES["train/a.txt"]}
        with refused("lacks train/zzz"):
            list(shelf.read(["train/zzz"]))
    assert sorted(p.name for p in tmp_path.parent.iterdir()) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.tar", "x.zip"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        member = tarfile.TarInfo("train/a.txt")
        member.type, member.linkname = kind, "/etc/passwd"
        file.addfile(member)
    shelf = TarShelf(save(tmp_path / "x.tar", buffer.getvalue()))
    with refused("train/a.txt", "link or device"):
        read_one(shelf, "train/a.txt")


def test_the_same_name_twice_is_refused(tmp_path):
    buffer = io.BytesIO(zipped({"a": b"1"}))
    with zipfile.ZipFile(buffer, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("a", b"2")
    with refused("holds a twice"):
        read_one(ZipShelf(save(tmp_path / "x.zip", buffer.getvalue())), "a")
    block = tarred({"a": b"1"})[:1024]
    shelf = TarShelf(save(tmp_path / "x.tar", block + block + tarred({"b": b""})))
    with refused("holds a twice"):
        list(shelf.read(["a", "b"]))


def test_what_unpacks_to_too_much_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(shelf_module, "MEMBER_LIMIT", 4096)
    bomb = {"a": bytes(5000), **FILES}
    save(tmp_path / "set" / "a", bomb["a"])
    for shelf in (
        FolderShelf(tmp_path / "set"),
        ZipShelf(save(tmp_path / "x.zip", zipped(bomb))),
        TarShelf(save(tmp_path / "x.tar.gz", gzip.compress(tarred(bomb)))),
    ):
        with refused(shelf.title("a"), "unpacks to 5,000 bytes"):
            read_one(shelf, "a")
    fine = ZipShelf(save(tmp_path / "y.zip", zipped(FILES)))
    assert read_one(fine, "train/a.txt") == FILES["train/a.txt"]
    monkeypatch.setattr(shelf_module, "ARCHIVE_LIMIT", 9000)
    many = tarred({f"{i}": bytes(4000) for i in range(4)})
    with refused("x.tar", "unpacks to more than"):
        read_one(TarShelf(save(tmp_path / "x.tar", many)), "3")


def test_a_zip_directory_that_lies_about_a_size(tmp_path):
    data = bytearray(zipped({"a": bytes(100_000)}))
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 10)
    with refused("x.zip", "truncated or damaged"):
        read_one(ZipShelf(save(tmp_path / "x.zip", bytes(data))), "a")


def test_a_tar_header_that_asks_for_more_than_memory(tmp_path):
    """A long-name header is read whole by tarfile: its size must be bounded too."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 1 << 40
    head = member.tobuf(tarfile.GNU_FORMAT)
    with refused("x.tar", "truncated or damaged", "asks for"):
        read_one(TarShelf(save(tmp_path / "x.tar", head + bytes(2048))), "a")


def test_locked_members_are_refused(tmp_path):
    data = bytearray(zipped({"a": b"secret"}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    data[6] |= 1
    with refused("x.zip: a", "password"):
        read_one(ZipShelf(save(tmp_path / "x.zip", bytes(data))), "a")


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tar.xz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_truncated_archives_are_refused_by_name(tmp_path, name, share):
    content = {"a": random.Random(0).randbytes(40_000)}
    packed = tarred(content)
    whole = {
        "x.zip": zipped(content),
        "x.tar": packed,
        "x.tar.gz": gzip.compress(packed),
        "x.tar.xz": lzma.compress(packed),
    }[name]
    path = save(tmp_path / name, whole[: int(len(whole) * share)])
    kind = ZipShelf if name == "x.zip" else TarShelf
    with refused(str(path)):
        read_one(kind(path), "a")
