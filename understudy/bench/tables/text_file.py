"""Text for the terminal or for a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from understudy.durable import replace_durably
from understudy.errors import UserError


def show_or_write(text: str, path: Path | None, show: Callable[[str], None]) -> None:
    """Show the text, or write a new file of it, whole or not at all."""
    if path is None:
        show(text.rstrip("\n"))
        return
    if path.exists():
        raise UserError(f"{path} exists already; choose another name for the table.")
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} to write {path.name} into; make it.")
    replace_durably(path, f"{text.rstrip()}\n".encode())
