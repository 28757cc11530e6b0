import errno
from pathlib import Path

import pytest

from understudy.errors import UserError
from understudy.release.files import new_folder, write_file


def test_folder_appears_whole(tmp_path: Path) -> None:
    with new_folder(tmp_path / "deep" / "out") as partial:
        write_file(partial / "a", b"1")
        assert not (tmp_path / "deep" / "out").exists()
    assert (tmp_path / "deep" / "out" / "a").read_bytes() == b"1"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["out"]


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), SystemExit(1)])
def test_nothing_is_left_after_an_error(tmp_path: Path, error: BaseException) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "out") as partial:
            write_file(partial / "a", b"1")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the disk is full"), new_folder(tmp_path / "out"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(UserError, match="could not be written: I/O"), new_folder(tmp_path / "out"):
        raise OSError(errno.EIO, "I/O error")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_what_exists_is_refused_and_kept(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "folder":
        out.mkdir()
    elif kind == "file":
        out.write_text("mine")
    else:
        out.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="already exists"), new_folder(out):
        pass
    assert out.exists() or out.is_symlink()


def test_folder_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="already exists"), new_folder(tmp_path / "out"):
        (tmp_path / "out").mkdir()
    assert list((tmp_path / "out").iterdir()) == []
