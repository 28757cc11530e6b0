"""Documents of a stranger's folder: read strictly, in one form, and never through a link."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from understudy.errors import UserError
from understudy.release.documents import read_document, read_plain
from understudy.release.strict_json import parse_object, readable_bytes

NAME = "note.json"


@dataclass(frozen=True)
class Note:
    content: dict[str, Any]

    def to_bytes(self) -> bytes:
        return readable_bytes({"format": "note/1", "words": self.content["words"]})

    @staticmethod
    def from_bytes(data: bytes) -> "Note":
        return Note(parse_object(data, NAME))


def read(folder: Path, data: bytes) -> tuple[Note | None, list[str]]:
    (folder / NAME).write_bytes(data)
    return read_document(folder, NAME, Note.from_bytes)


def test_a_document_in_its_form_has_no_problem(tmp_path: Path) -> None:
    right = readable_bytes({"format": "note/1", "words": ["a"]})
    assert read(tmp_path, right) == (Note({"format": "note/1", "words": ["a"]}), [])


def test_what_is_not_in_its_form_is_named(tmp_path: Path) -> None:
    right = {"format": "note/1", "words": ["a"]}
    spaced = json.dumps(right, indent=3).encode()
    assert read(tmp_path, spaced)[1] == ["note.json is not in its canonical form."]
    _, found = read(tmp_path, readable_bytes({**right, "ann": 1}))
    assert found == ["note.json is not in its canonical form (look at 'ann')."]
    _, found = read(tmp_path, readable_bytes({**right, "format": "note/2"}))
    assert found == ["note.json is not in its canonical form (look at 'format')."]


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"format": "note/1"}'])
def test_what_cannot_be_read_is_a_problem_and_no_document(tmp_path: Path, data: bytes) -> None:
    found, problems = read(tmp_path, data)
    assert found is None
    assert NAME in problems[0]


def test_nothing_is_read_where_nothing_is_or_through_a_link(tmp_path: Path) -> None:
    assert read_document(tmp_path, NAME, Note.from_bytes) == (None, [])
    (tmp_path / "elsewhere").write_bytes(b"{}")
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    assert read_document(tmp_path, NAME, Note.from_bytes) == (None, [])
    assert read_plain(tmp_path, NAME) is None


def test_what_the_disk_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    (tmp_path / NAME).write_bytes(b"{}")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UserError, match=r"note\.json cannot be read: Permission denied"):
        read_plain(tmp_path, NAME)
