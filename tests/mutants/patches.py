"""A patch of a module's source that is applied as the module is imported, never on the disk."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[2]


class PatchError(Exception):
    """A patch does not apply: what it replaces is not there, or is there more than once."""


@dataclass(frozen=True)
class Edit:
    """Replace one piece of text, found exactly once, in a module or in one object of it.

    Lines after the first are written without the indentation of the line where the piece
    stands; it is added to them, in `old` and `new` alike.
    """

    module: str
    within: str
    old: str
    new: str

    @staticmethod
    def parse(where: str, old: str, new: str) -> Edit:
        """`where` is `package.module` or `package.module:Object.inner`."""
        module, _, within = where.partition(":")
        return Edit(module, within, old.rstrip("\n"), new.rstrip("\n"))

    def apply(self, source: str) -> str:
        start, end = _extent(source, self.within, self.module)
        segment = source[start:end]
        found = _positions(segment, self.old)
        if len(found) != 1:
            place = f"{self.module}:{self.within}".rstrip(":")
            raise PatchError(f"{place} holds {self.old!r} {len(found)} times, not once")
        at = start + found[0]
        indent = _indent(source, at)
        old, new = _indented(self.old, indent), _indented(self.new, indent)
        return source[:at] + new + source[at + len(old) :]


def patched_sources(edits: Sequence[Edit]) -> dict[str, str]:
    """The source of each module with its edits applied one after another; it compiles."""
    sources: dict[str, str] = {}
    for edit in edits:
        before = sources.get(edit.module) or path_of(edit.module).read_text(encoding="utf-8")
        sources[edit.module] = edit.apply(before)
    for module, source in sources.items():
        compile(source, str(path_of(module)), "exec")
    return sources


def path_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def plant(edits: Sequence[Edit]) -> None:
    """From now on these modules are imported patched; none may have been imported yet."""
    sources = patched_sources(edits)
    early = sorted(set(sources) & set(sys.modules))
    if early:
        raise PatchError(f"{', '.join(early)} was imported before it could be patched")
    sys.meta_path.insert(0, _Planting(sources))


class _Planting(MetaPathFinder):
    """Finds patched modules where they are, and hands their patched source to Python."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._sources:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None:
            raise PatchError(f"{name} is not a module with a source")
        spec.loader = _Patched(name, spec.origin, self._sources[name])
        return spec


class _Patched(SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType | None:
        del fullname
        code: CodeType = compile(self._source, self.path, "exec")
        return code


def _extent(source: str, within: str, module: str) -> tuple[int, int]:
    """Where in the source an object begins and ends."""
    if not within:
        return 0, len(source)
    body: list[ast.stmt] = ast.parse(source).body
    node: ast.stmt | None = None
    for name in within.split("."):
        named = [n for n in body if getattr(n, "name", None) == name]
        if not named:
            raise PatchError(f"{module} has no {within}")
        node = named[-1]
        body = getattr(node, "body", [])
    assert node is not None
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    lines = source.splitlines(keepends=True)
    start = sum(len(line) for line in lines[: first - 1])
    return start, sum(len(line) for line in lines[: node.end_lineno])


def _positions(segment: str, old: str) -> list[int]:
    first = old.split("\n", 1)[0]
    found: list[int] = []
    at = segment.find(first)
    while at >= 0:
        if segment.startswith(_indented(old, _indent(segment, at)), at):
            found.append(at)
        at = segment.find(first, at + 1)
    return found


def _indent(source: str, at: int) -> str:
    """The white space that begins the line of this position."""
    line = source[source.rfind("\n", 0, at) + 1 :].split("\n", 1)[0]
    return line[: len(line) - len(line.lstrip())]


def _indented(text: str, indent: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(indent + line if line else line for line in rest)])
