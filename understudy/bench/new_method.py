"""A new method in one file: a working copy of a small one, under its own name."""

from __future__ import annotations

import importlib.util
import keyword
import re
from importlib.resources import files
from pathlib import Path

from understudy.durable import replace_durably
from understudy.errors import UserError
from understudy.methods.registry import method_names

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TEMPLATE_NAME, _TEMPLATE_CLASS, _TEMPLATE_TITLE = "class-means", "ClassMeans", "Class Means"


def new_method(name: str, file: Path | None = None) -> str:
    """Write a method called `name` and give its address, `file.py:Class`.

    The file is complete: it passes `check-method` and can stand in a suite as it is. Its
    guarantee is in its docstring; what it does is to be replaced by what yours does.
    """
    _check_name(name)
    path = file or Path(f"{name.replace('-', '_')}.py")
    _check_place(path)
    text = files("understudy.bench").joinpath("templates", "class_means.py").read_text("utf-8")
    own = class_name(name)
    text = text.replace(_TEMPLATE_NAME, name).replace(_TEMPLATE_CLASS, own)
    text = text.replace(_TEMPLATE_TITLE, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_durably(path, text.encode())
    return f"{path}:{own}"


def class_name(name: str) -> str:
    """A method's name as Python writes classes.

    >>> class_name("dp-merf")
    'DpMerf'
    """
    return "".join(word.capitalize() for word in name.split("-"))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot be a method's name; write lower-case words, digits and hyphens, "
            "beginning with a letter, like my-method."
        )
    if keyword.iskeyword(class_name(name)):
        raise UserError(
            f"{name!r} cannot be a method's name: Python has the word {class_name(name)}; "
            "choose another, like my-method."
        )
    if name in method_names():
        raise UserError(f"there is a method {name!r} already; choose another name.")


def _check_place(path: Path) -> None:
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise UserError(
            f"-o {path} cannot be imported; name the file with letters, digits and _, "
            "ending in .py."
        )
    if path.exists():
        raise UserError(f"{path} exists already; choose another file with -o.")
    if importlib.util.find_spec(path.stem) is not None:
        raise UserError(
            f"{path} would be hidden by the installed module {path.stem!r}; choose another "
            "file name with -o."
        )
