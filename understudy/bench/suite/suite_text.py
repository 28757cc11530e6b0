"""The text of a suite: YAML in which every value knows its file and line."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from understudy.errors import UserError, did_you_mean, home_expanded

_TAG = "tag:yaml.org,2002:"

LARGEST = 2**63 - 1
"""The largest whole number that evidence can hold: tables and SQL count in 64 bits."""


@dataclass(frozen=True)
class Text:
    """One value of a YAML file, not yet read; reading it names the line if it is wrong."""

    file: Path
    node: yaml.Node

    @property
    def line(self) -> int:
        return int(self.node.start_mark.line) + 1

    @property
    def place(self) -> str:
        return f"{self.file}, line {self.line}"

    def error(self, problem: str) -> UserError:
        return UserError(f"{self.place}: {problem}")

    @contextmanager
    def naming(self) -> Iterator[None]:
        """What is refused in here is refused with this place."""
        try:
            yield
        except UserError as error:
            raise self.error(str(error)) from error

    def mapping(self, what: str, known: Collection[str] | None = None) -> dict[str, Text]:
        """The values by key. A key that is not among `known`, or stands twice, is refused."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"{what} must be values by name (key: value), not {self.written}.")
        found: dict[str, Text] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in self.node.value:
            key = Text(self.file, key_node)
            name = key.written
            if known is not None and name not in known:
                raise key.error(f"{what} has no key {name!r}; {did_you_mean(name, known)}")
            if name in found:
                raise key.error(
                    f"{what} has the key {name!r} twice (also in line {lines[name]}); keep one."
                )
            found[name], lines[name] = Text(self.file, value_node), key.line
        return found

    def entries(self, what: str) -> tuple[Text, ...]:
        """The entries of a list; a value that is no list is its own only entry."""
        if not isinstance(self.node, yaml.SequenceNode):
            return (self,)
        if not self.node.value:
            raise self.error(f"{what} is an empty list; give at least one value.")
        return tuple(Text(self.file, node) for node in self.node.value)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_none(self) -> bool:
        return self._is("null")

    @property
    def written(self) -> str:
        """A single value as it stands in the file; in words what else it is."""
        if isinstance(self.node, yaml.ScalarNode):
            return str(self.node.value)
        return "a list" if isinstance(self.node, yaml.SequenceNode) else "values by name"

    def text(self, what: str) -> str:
        if not self._is("str") or not self.written.strip():
            raise self.error(f"{what} must be text, not {self.written!r}; put it into quotes.")
        return self.written.strip()

    def number(self, what: str) -> float:
        """A finite number; YAML itself takes 1e-5 for text."""
        plain = isinstance(self.node, yaml.ScalarNode) and self.node.style is None
        try:
            value = float(self.written) if plain and not self._is("bool") else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.error(f"{what} must be a number, not {self.written!r}.")
        return value

    def whole(self, what: str, least: int) -> int:
        try:
            value = int(self.written) if self._is("int") else least - 1
        except ValueError:
            value = least - 1
        if value < least:
            raise self.error(
                f"{what} must be a whole number of at least {least}, not {self.written!r}."
            )
        if value > LARGEST:
            raise self.error(f"{what} must be at most {LARGEST}, not {self.written!r}.")
        return value

    def beside(self, path: str) -> str:
        """A path that is written relative to this file, as the working folder sees it."""
        joined = self.file.parent / home_expanded(path)
        return os.path.normpath(joined)

    def _is(self, tag: str) -> bool:
        return isinstance(self.node, yaml.ScalarNode) and self.node.tag == _TAG + tag


def read_text(path: Path) -> Text:
    """The whole content of a YAML file."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = error.problem or error.context or "it cannot be read"
        raise UserError(f"{path}{line}: this is not YAML ({problem}).") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML in UTF-8.") from error
    except RecursionError as error:
        raise UserError(f"{path} is nested too deeply to be a suite.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    if node is None:
        raise UserError(f"{path} is empty; a suite has at least a grid.")
    return Text(path, node)
