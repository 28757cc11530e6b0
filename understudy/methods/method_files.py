"""Data files that ship with a method: presets and rules."""

from __future__ import annotations

import importlib.resources
from importlib.resources.abc import Traversable
from typing import Any

from understudy.errors import UserError
from understudy.methods.contract import Method


def method_file(method: Method, folder: str) -> Traversable | None:
    """`folder/NAME.yaml` beside the method's module, or one package up, or above that."""
    package = type(method).__module__.rpartition(".")[0]
    while package:
        file = importlib.resources.files(package).joinpath(folder, f"{method.info.name}.yaml")
        if file.is_file():
            return file
        package = package.rpartition(".")[0]
    return None


def read_entries(file: Traversable, what: str) -> list[Any]:
    """The list that such a file holds; `what` names the kind of file in errors."""
    import yaml  # here, so that fitting a method needs no YAML reader

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{what} file {file.name} is not readable YAML: {error}.") from error
    if not isinstance(content, list):
        raise UserError(f"{what} file {file.name} must hold a list of {what}s.")
    return content
