"""A digest of a method's code: equal for equal behaviour as far as the source shows.

Source is read as syntax trees, so comments, docstrings and layout do not count, and neither
does where a module lies: of an import only the imported names do. Besides the method's own
module the digest covers what that imports, directly or not, of its own package and of
Understudy's rooms `methods` and `nets`. What comes by way of `understudy.authoring` counts as if it
were imported from where it lies. Data files do not count: presets show in the resolved settings,
which are part of every key.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import understudy
from understudy.errors import UserError
from understudy.methods.contract import Method

_ROOMS = ("understudy.methods", "understudy.nets")
_WITHOUT_ALGORITHM = frozenset(
    f"understudy.methods.{name}" for name in ("config", "contract", "info", "presets", "registry")
)
"""How methods are declared and found. A change there makes no method do anything else."""

_AUTHORING = "understudy.authoring"

_SITES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True)
class _Source:
    """One module as read: the digest of its tree, and the names that it imports."""

    digest: str
    imports: tuple[str, ...]


def code_digest(method: Method) -> str:
    """sha256 over the syntax trees of the modules that a method is made of."""
    module = type(method).__module__
    roots = _roots(module)
    digests: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = _file_of(name, roots)
        if name in digests or name in _WITHOUT_ALGORITHM or file is None:
            continue
        status = file.stat()
        source = _read(file, name, status.st_mtime_ns, status.st_size)
        digests[name] = source.digest
        waiting += source.imports
    if module not in digests:
        raise UserError(f"the source of method {method.info.name!r} ({module}) cannot be found.")
    return hashlib.sha256(json.dumps(sorted(digests.values())).encode()).hexdigest()


def _roots(module: str) -> dict[str, Path]:
    """Where the code that counts lies: by the beginning of a module's name, the folder.

    The method's own package counts whole; of a file on its own, what lies beside it does
    (under the name ""), unless it is installed among everybody else's.
    """
    house = Path(understudy.__file__).parent
    roots = {room: house / room.rpartition(".")[2] for room in _ROOMS}
    top = module.partition(".")[0]
    if top == "understudy":
        return roots
    file = getattr(sys.modules.get(top), "__file__", None)
    if hasattr(sys.modules.get(top), "__path__"):
        roots[top] = Path(next(iter(sys.modules[top].__path__)))
    elif file is not None and _SITES.isdisjoint(Path(file).parts):
        roots[""] = Path(file).parent
    elif file is not None:
        roots[top] = Path(file).with_suffix("")
    return roots


def _file_of(name: str, roots: Mapping[str, Path]) -> Path | None:
    """The file of a module that counts, or None."""
    for root, folder in roots.items():
        if not _within(name, root):
            continue
        inside = name.removeprefix(root).strip(".")
        base = folder.joinpath(*inside.split(".")) if inside else folder
        for candidate in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if candidate.is_file():
                return candidate
    return None


def _within(name: str, root: str) -> bool:
    """Of Understudy only its rooms count, even where all of it lies beside a method's file."""
    if root:
        return name == root or name.startswith(f"{root}.")
    return name.partition(".")[0] != "understudy"


@functools.lru_cache(maxsize=1024)
def _read(file: Path, name: str, changed: int, size: int) -> _Source:
    """Read once for each state of the file: `changed` and `size` tell states apart."""
    del changed, size
    tree = ast.parse(file.read_bytes(), filename=str(file))
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    form = json.dumps([_form(tree), _imported_names(tree)], separators=(",", ":"))
    named = set(_imported(tree, package))
    if _AUTHORING in named:
        named |= _behind_authoring(tree)
    found = {part for whole in named for part in _with_parents(whole)}
    return _Source(hashlib.sha256(form.encode()).hexdigest(), tuple(sorted(found)))


def _form(value: Any) -> Any:
    """A tree as plain lists: what every Python version writes alike.

    Empty fields are left out, as newer versions have more of them; so are imports, and
    statements that are only a string, which is what docstrings are.
    """
    if isinstance(value, ast.AST):
        shown = {n: _form(v) for n, v in ast.iter_fields(value) if n not in ("kind", "ctx")}
        return [type(value).__name__, {n: v for n, v in shown.items() if v not in (None, [])}]
    if isinstance(value, list):
        return [_form(one) for one in value if not _is_left_out(one)]
    return value if value is None else f"{type(value).__name__} {value!r}"


def _is_left_out(node: Any) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _imported_names(tree: ast.AST) -> list[list[str]]:
    """What is imported, and under which name; not from where, and in no order."""
    found = {
        (alias.name.rpartition(".")[2], alias.asname or "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return sorted(map(list, found))


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Every name that may be a module and is imported anywhere in a tree, in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                start = ".".join([*above, start] if start else above)
            yield start
            yield from (f"{start}.{alias.name}" for alias in node.names)


def _behind_authoring(tree: ast.AST) -> set[str]:
    """The modules of the names of `understudy.authoring` that a tree imports or reads.

    An attribute of anything else that is called the same counts too: a module too many does less
    harm than one too few.
    """
    homes = _homes_of_authoring()
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    words = read | {name for name, _ in _imported_names(tree)}
    return set(homes.values()) if "*" in words else {homes[w] for w in words & homes.keys()}


@functools.cache
def _homes_of_authoring() -> Mapping[str, str]:
    """Each name that it hands on, and the module where that lies."""
    tree = ast.parse((Path(__file__).parents[2] / "authoring.py").read_bytes())
    return {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def _with_parents(name: str) -> Iterator[str]:
    """`a.b.c` runs a and a.b too."""
    parts = name.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))
