"""A file that travels in pieces is the very file that was split, or none."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from understudy.bench.away import pieces
from understudy.bench.away.pieces import FileInPieces, FileState, join, split
from understudy.errors import UserError

CONTENT = bytes(range(100)) + b"the end"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "pieces").mkdir()
    return tmp_path / "pieces"


def in_pieces(room: Path, content: bytes = CONTENT, most: int = 25) -> FileInPieces:
    return split(io.BytesIO(content), room, most)


@pytest.mark.parametrize(("most", "number"), [(25, 5), (1, 107), (107, 1), (1000, 1)])
def test_what_was_split_is_joined(tmp_path: Path, room: Path, most: int, number: int) -> None:
    file = in_pieces(room, most=most)
    assert len(file.pieces) == number
    assert all(path.stat().st_size <= most for path in room.iterdir())
    join(file, room, tmp_path / "whole", "whole")
    assert (tmp_path / "whole").read_bytes() == CONTENT
    assert file.state_at(tmp_path / "whole") is FileState.THERE
    assert {p.stat().st_mode & 0o777 for p in (*room.iterdir(), tmp_path / "whole")} == {0o600}


def test_equal_content_is_kept_once(room: Path) -> None:
    file = in_pieces(room, b"ab" * 30, most=2)
    assert (len(file.pieces), len(list(room.iterdir()))) == (30, 1)
    in_pieces(room, b"ab", most=10)
    assert len(list(room.iterdir())) == 1


def test_an_empty_file_has_no_pieces(tmp_path: Path, room: Path) -> None:
    join(in_pieces(room, b""), room, tmp_path / "whole", "whole")
    assert (tmp_path / "whole").read_bytes() == b""


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("harm", ["missing", "renamed", "cut", "longer", "changed", "another's"])
def test_each_piece_that_is_not_whole_is_named(
    tmp_path: Path, room: Path, number: int, harm: str
) -> None:
    file = in_pieces(room)
    path = room / file.pieces[number].name
    content = path.read_bytes()
    if harm == "missing":
        path.unlink()
    elif harm == "renamed":
        path.rename(room / "0001.piece")
    else:
        other = (room / file.pieces[number - 1].name).read_bytes()
        changed = bytes([content[0] ^ 1]) + content[1:]
        path.write_bytes(
            {"cut": content[:-1], "longer": content + b"x", "changed": changed, "another's": other}[
                harm
            ]
        )
    state = FileState.MISSING if harm in ("missing", "renamed") else FileState.DAMAGED
    assert [p.state(room) for p in file.pieces] == [
        state if n == number else FileState.THERE for n in range(5)
    ]
    with pytest.raises(
        UserError, match=rf"^piece {number + 1} of 5 of x is {state}: bring {path.name}"
    ):
        join(file, room, tmp_path / "whole", "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pieces"], "nothing half joined is left"


def test_pieces_of_another_file_make_none(tmp_path: Path, room: Path) -> None:
    """Each piece is whole, and their order or number is not that of the file."""
    file = in_pieces(room)
    for wrong in (file.pieces[::-1], (*file.pieces[1:], file.pieces[0])):
        with pytest.raises(UserError, match="make another file"):
            join(FileInPieces(file.sha256, file.length, wrong), room, tmp_path / "whole", "x")
        assert not (tmp_path / "whole").exists()


def test_killed_while_joining_nothing_stands_at_its_name(
    tmp_path: Path, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill runs no cleaning up: what it leaves is beside the file, and goes the next time."""
    file, target, read = in_pieces(room), tmp_path / "whole", pieces._chunks
    child = os.fork()
    if not child:

        def dies(piece: pieces.Piece, folder: Path, words: str) -> object:
            if words.startswith("piece 4"):
                os._exit(9)
            return read(piece, folder, words)

        monkeypatch.setattr(pieces, "_chunks", dies)
        join(file, room, target, "whole")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not target.exists()
    assert len(list(tmp_path.iterdir())) == 2, "half of it lies beside"
    join(file, room, target, "whole")
    assert target.read_bytes() == CONTENT
    assert len(list(tmp_path.iterdir())) == 2, "and is gone"


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = in_pieces(room)

    def full(_: BinaryIO) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("understudy.durable.flush", full)
    with pytest.raises(OSError, match="no space"):
        join(file, room, tmp_path / "whole", "whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pieces"]


def test_a_description_that_no_split_makes_is_refused(room: Path) -> None:
    plain = in_pieces(room).to_json()
    assert FileInPieces.from_json(plain).to_json() == plain
    elsewhere = [{"sha256": "../../etc/passwd", "length": 107}]
    for wrong in ({"sha256": "A" * 64}, {"length": 106}, {"pieces": []}, {"pieces": elsewhere}):
        with pytest.raises(ValueError, match=r"digest|as long as"):
            FileInPieces.from_json({**plain, **wrong})


def test_a_piece_of_nothing_is_refused(room: Path) -> None:
    with pytest.raises(UserError, match="piece size must be at least 1 byte, not 0"):
        in_pieces(room, most=0)
