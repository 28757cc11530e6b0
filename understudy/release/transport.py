"""Files that machines leave in a folder on its way: no part of a release, and no damage to it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

_NAMES = frozenset({".DS_Store", ".gitattributes", "Thumbs.db", "desktop.ini"})
_START = "._"
_FOLDERS = (".cache/huggingface/",)


def left_on_the_way(folder: Path, name: str) -> bool:
    """Whether this path in a folder is a known one of file browsers, git or the Hub.

    A link never is: it could lead anywhere. Nothing ever opens what this accepts.
    """
    path = folder / name
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        return False
    last = PurePosixPath(name).name
    return last in _NAMES or last.startswith(_START) or name.startswith(_FOLDERS)


def transport_notes(names: list[str]) -> list[str]:
    """What a verification says of such files."""
    return [f"{name} is no part of it: a file left on the way, not looked into." for name in names]
