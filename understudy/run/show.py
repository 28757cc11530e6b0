"""Releases, and runs of one's own, as pictures side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from understudy.data.contact_sheet import Rows, beside, contact_sheet, rows_of, to_html, to_png
from understudy.data.records import Array, Records
from understudy.durable import replace_durably
from understudy.errors import UserError
from understudy.release.load import load_release
from understudy.run.config import FILE
from understudy.run.folder import RunFolder


@dataclass(frozen=True, repr=False)
class Shown:
    """The first synthetic pictures of each class of several releases, each under its name."""

    sheets: tuple[tuple[str, Rows], ...]

    @property
    def pixels(self) -> Array:
        """All of them as one picture, `uint8 [C, height, width]`."""
        return beside([(name, contact_sheet(rows)) for name, rows in self.sheets])

    def write(self, path: Path | str) -> Path:
        """Write the picture as a PNG file, which must not be there yet."""
        target = Path(path)
        check_picture(target)
        replace_durably(target, to_png(self.pixels))
        return target

    def __repr__(self) -> str:
        return f"Shown({', '.join(name for name, _ in self.sheets)})"

    def _repr_html_(self) -> str:
        return to_html(to_png(self.pixels), ", ".join(name for name, _ in self.sheets))


def show(*places: Path | str) -> Shown:
    """The pictures of releases, or of run folders, in this order; `verify` is another question."""
    if not places:
        raise UserError("name at least one release to show.")
    paths = [Path(place) for place in places]
    names = [path.resolve().name for path in paths]
    titles = names if len(set(names)) == len(names) else [str(path) for path in paths]
    found = [_records(path) for path in paths]
    return Shown(
        tuple(
            (title, rows_of([records], records.schema, records.shape))
            for title, records in zip(titles, found, strict=True)
        )
    )


def check_picture(path: Path) -> None:
    """Refuse what cannot become a PNG file, while nothing has been read."""
    if path.suffix.lower() != ".png":
        raise UserError(f"-o {path} must end in .png.")
    if path.exists():
        raise UserError(f"{path} exists already; choose another with -o.")
    if not path.absolute().parent.is_dir():
        raise UserError(f"there is no folder {path.absolute().parent}; choose another with -o.")


def _records(path: Path) -> Records:
    """Of a run folder its samples, of anything else what its release holds."""
    if (path / FILE).is_file():
        return RunFolder(path).load_samples()
    return load_release(path)[0]
