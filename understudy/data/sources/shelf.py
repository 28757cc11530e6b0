"""Raw files by name, wherever they lie: in a folder, a zip or a tar. Nothing is unpacked to disk.

An archive is somebody else's file. Its members are looked up under the names that the
published dataset has, so a member called `../x` or `/etc/x` is never followed; what a
member may unpack to is bounded before it is read; links and locked members are refused.
"""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

from understudy.data.images import read_file
from understudy.errors import UserError

MEMBER_LIMIT = 256 << 20
"""Bytes that one file may have: the largest raw file of the catalog (a CIFAR batch) has 154 MB."""

ARCHIVE_LIMIT = 64 << 30
"""Bytes that the members of one tar may have together, since they must be read through."""

_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
)


class Shelf(Protocol):
    """Where the raw files of one dataset lie.

    `read` gives the position and the bytes of each named file, in whatever order is
    cheap, and refuses the whole if one is missing. `title` is what an error calls a file;
    `names` are those of all files, for sets whose names follow from no list.
    """

    @property
    def place(self) -> Path: ...

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes]]: ...

    def title(self, name: str) -> str: ...

    def names(self) -> list[str]: ...


def open_shelf(
    folder: Path, archives: Sequence[str], roots: Sequence[str], first: str
) -> Shelf | None:
    """The folder itself (or one of its `roots`) if `first` lies there, else its archive."""
    for root in roots:
        if (folder / root / first).exists():
            return FolderShelf(folder / root)
    found = sorted({path for name in archives for path in folder.glob(name) if path.is_file()})
    if len(found) > 1:
        raise UserError(
            f"{folder} holds {' and '.join(path.name for path in found)}; keep one archive."
        )
    if not found:
        return None
    kind = ZipShelf if found[0].suffix == ".zip" else TarShelf
    return kind(found[0], tuple(roots))


def read_one(shelf: Shelf, name: str) -> bytes:
    """One file of a shelf."""
    return next(iter(shelf.read([name])))[1]


@dataclass(frozen=True)
class FolderShelf:
    place: Path

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes]]:
        missing = [name for name in names if not (self.place / name).is_file()]
        _refuse_missing(self.place, missing)
        for i, name in enumerate(names):
            path = self.place / name
            _refuse_large(self.title(name), path.stat().st_size)
            yield i, read_file(path)

    def title(self, name: str) -> str:
        return str(self.place / name)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.place.iterdir() if path.is_file())


@dataclass(frozen=True)
class ZipShelf:
    place: Path
    roots: tuple[str, ...] = ("",)

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes]]:
        with _whole(self.place), zipfile.ZipFile(self.place) as file:
            members: dict[str, zipfile.ZipInfo] = {}
            for member in file.infolist():
                name = _plain(member.filename, self.roots)
                if name in members and not member.is_dir():
                    raise _twice(self.place, name)
                members[name] = member
            _refuse_missing(self.place, [name for name in names if name not in members])
            for i, name in enumerate(names):
                yield i, self._bytes(file, members[name], name)

    def title(self, name: str) -> str:
        return f"{self.place}: {name}"

    def names(self) -> list[str]:
        with _whole(self.place), zipfile.ZipFile(self.place) as file:
            return [_plain(m.filename, self.roots) for m in file.infolist() if not m.is_dir()]

    def _bytes(self, file: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> bytes:
        if member.flag_bits & 1:
            raise UserError(f"{self.title(name)} is locked with a password; unlock the archive.")
        _refuse_large(self.title(name), member.file_size)
        with file.open(member) as stream:
            # The directory may lie about the size; the stream then stops or fails its checksum.
            return stream.read(MEMBER_LIMIT + 1)


@dataclass(frozen=True)
class TarShelf:
    place: Path
    roots: tuple[str, ...] = ("",)

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes]]:
        wanted = {name: i for i, name in enumerate(names)}
        done: set[str] = set()
        with _whole(self.place), self._open() as file:
            for member in self._members(file):
                name = _plain(member.name, self.roots)
                if name in done:
                    raise _twice(self.place, name)
                if name in wanted:
                    yield wanted.pop(name), self._bytes(file, member, name)
                    done.add(name)
                if not wanted:
                    return
        _refuse_missing(self.place, [name for name in names if name in wanted])

    def title(self, name: str) -> str:
        return f"{self.place}: {name}"

    def names(self) -> list[str]:
        with _whole(self.place), self._open() as file:
            return [_plain(m.name, self.roots) for m in self._members(file) if m.isreg()]

    @contextmanager
    def _open(self) -> Iterator[tarfile.TarFile]:
        with (
            _unpacked(self.place) as stream,
            tarfile.open(fileobj=cast(IO[bytes], _Bounded(stream)), mode="r:") as file,
        ):
            yield file

    def _members(self, file: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        total = 0
        while (member := file.next()) is not None:
            total += member.size
            _refuse_large(self.title(member.name), member.size)
            if total > ARCHIVE_LIMIT:
                raise UserError(
                    f"{self.place} unpacks to more than {ARCHIVE_LIMIT >> 30} GB; it is not the "
                    "published archive."
                )
            # tarfile keeps every member it has seen: a hundred megabytes for a large set.
            file.members.clear()  # type: ignore[attr-defined]
            yield member

    def _bytes(self, file: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> bytes:
        stream = file.extractfile(member) if member.isreg() else None
        if stream is None:
            raise UserError(f"{self.title(name)} is a link or device, not a file; pack the file.")
        return stream.read()


class _Bounded:
    """A stream that hands out no more than one member at once, whatever a header asks for."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, count: int = -1) -> bytes:
        if not 0 <= count <= MEMBER_LIMIT:
            raise tarfile.ReadError(f"a header asks for {count} bytes")
        return self._stream.read(count)

    def seek(self, position: int) -> int:
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()


def _unpacked(path: Path) -> IO[bytes]:
    if path.suffix in (".gz", ".tgz"):
        return gzip.open(path)  # type: ignore[return-value]
    if path.suffix in (".xz", ".txz"):
        return lzma.open(path)
    return path.open("rb")


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except _DAMAGE as error:
        raise UserError(
            f"{path} is truncated or damaged ({error}); replace it with a whole copy."
        ) from error


def _plain(name: str, roots: Sequence[str]) -> str:
    """A member's name below the dataset's own root."""
    name = name.removeprefix("./")
    for root in roots:
        if root and name.startswith(f"{root}/"):
            return name[len(root) + 1 :]
    return name


def _refuse_missing(place: Path, missing: Sequence[str]) -> None:
    if missing:
        more = f" and {len(missing) - 1:,} more files" if len(missing) > 1 else ""
        raise UserError(f"{place} lacks {missing[0]}{more}; replace it with a whole copy.")


def _refuse_large(title: str, size: int) -> None:
    if size > MEMBER_LIMIT:
        raise UserError(
            f"{title} unpacks to {size:,} bytes, more than any raw file has; it is not the "
            "published file."
        )


def _twice(place: Path, name: str) -> UserError:
    return UserError(f"{place} holds {name} twice; replace it with the published archive.")
