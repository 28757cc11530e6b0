"""What can be refused before private records are read, is: no budget is spent on a slip."""

from __future__ import annotations

import os
from pathlib import Path

from understudy.data.catalog import catalog
from understudy.data.schema import Schema
from understudy.errors import UserError, home_expanded
from understudy.release.card import check_title
from understudy.release.columns import IMAGE
from understudy.release.leaks import machine_paths, private_columns
from understudy.release.signing import check_signing_key
from understudy.run.config import RunConfig
from understudy.run.context import choose_device


def check_places(config: RunConfig, out: Path, run: Path, *, resume: bool) -> None:
    """Refuse a release or a run folder that could not be written, or lies where it must not.

    The release is handed on and the run folder is the owner's, so neither may hold the
    other; and nothing may be written among the data, which the next run would read.
    """
    going_on = resume and run.exists()
    if (out.exists() or out.is_symlink()) and not going_on:
        raise UserError(f"the output folder {out} exists already; choose another with -o.")
    if resume and not run.exists():
        raise UserError(
            f"there is no run at {run}; leave --resume out to begin it, or name the run to go on "
            "with by --name and --runs."
        )
    if run.exists() and not resume:
        raise UserError(
            f"the run folder {run} exists already; add --resume to go on with it, "
            "or choose another name with --name."
        )
    if _holds(out, run) or _holds(run, out):
        raise UserError(
            f"the release {out} is handed on and the run folder {run} is the owner's; "
            "one must not lie in the other: choose another -o or --runs."
        )
    for option, place in (("-o", out), ("--runs", run)):
        _check_place(option, place, config.source)


def check_means(config: RunConfig, signing_key: Path | None, title: str | None) -> None:
    """Refuse a device that is not there, a key that cannot sign, a title that is no line."""
    choose_device(config.device)
    if title is not None:
        check_title(title)
    if signing_key is not None:
        check_signing_key(signing_key)


def check_words(schema: Schema, title: str, unit: str | None = None) -> None:
    """Refuse names and titles that no release may hold, while they can still be changed."""
    check_title(title)
    label = schema.label_attribute
    if label.name == IMAGE:
        raise UserError(f"the label is named {IMAGE!r}, like the pixels; rename the column.")
    for name in private_columns(schema, unit):
        raise UserError(
            f"the column {name!r} tells records or people apart, so no release may hold it; "
            "rename it if it does not, or leave it out of --label, --hide and --keep."
        )
    for text in machine_paths([label.name, *label.classes, title]):
        raise UserError(f"{text!r} reads like a path of your machine; a release must not name one.")


def _check_place(option: str, place: Path, source: str) -> None:
    if source not in catalog() and _holds_data(source, place):
        raise UserError(f"{option} puts {place} among the data in {source}; choose another place.")
    above = place.absolute().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UserError(
            f"{option} cannot be {place}: {above} is not a folder that can be written to."
        )


def _holds_data(source: str, place: Path) -> bool:
    data = home_expanded(source)
    return data.exists() and _holds(data, place)


def _holds(outer: Path, inner: Path) -> bool:
    return inner.resolve().is_relative_to(outer.resolve())
