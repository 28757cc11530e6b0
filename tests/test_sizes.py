"""The sizes that CONTRIBUTING names: how long a function and a file may be."""

from __future__ import annotations

import ast
import re
import textwrap

from tests.test_house import CONTRIBUTING, dotted, modules


def printed_limit(words: str) -> int:
    """A size that CONTRIBUTING names, after these words."""
    named = re.search(rf"{words} (\d+)", CONTRIBUTING)
    assert named, f"CONTRIBUTING names no size after {words!r}"
    return int(named[1])


Function = ast.FunctionDef | ast.AsyncFunctionDef


def lines_of(function: Function) -> int:
    """How many lines a function has: no decorator, no docstring, and of a command no options."""
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    is_command = "guarded" in map(ast.unparse, function.decorator_list)
    first = function.body[0] if is_command else function
    return extent(first, function) - (extent(docstring, docstring) if docstring else 0)


def extent(first: ast.stmt, last: ast.stmt) -> int:
    """Lines from the start of one statement to the end of another."""
    assert last.end_lineno is not None
    return last.end_lineno - first.lineno + 1


def long_functions(source: str) -> list[str]:
    limit = printed_limit("none over")
    return [
        f"{node.name}: {lines_of(node)} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, Function) and lines_of(node) > limit
    ]


def is_long(source: str) -> bool:
    return len(source.splitlines()) > printed_limit("no file over")


def test_functions_are_as_short_as_contributing_says() -> None:
    found = {dotted(path): long_functions(path.read_text()) for path in modules()}
    assert {module: names for module, names in found.items() if names} == {}


def test_files_are_as_short_as_contributing_says() -> None:
    assert [dotted(path) for path in modules() if is_long(path.read_text())] == []


def function_of(lines: int, *, decorator: str = "", options: int = 0, docstring: int = 0) -> str:
    """A function of so many lines, the one of `def` (two more with options) among them."""
    signature = ["def f("] + ["    x=0,"] * options + ["):"] if options else ["def f():"]
    words = ['    """Words.', *["    more"] * (docstring - 2), '    """'] if docstring else []
    body = ["    pass"] * (lines - len(signature))
    return "\n".join([*([decorator] if decorator else []), *signature, *words, *body])


def test_a_long_function_is_seen() -> None:
    limit = printed_limit("none over")
    assert not long_functions(function_of(limit))
    assert long_functions(function_of(limit + 1)) == [f"f: {limit + 1} lines"]
    assert not long_functions(function_of(limit, docstring=40))
    assert long_functions(function_of(limit + 1, docstring=40))
    assert long_functions(function_of(limit + 1, options=limit // 2))
    inside = "class C:\n" + textwrap.indent(function_of(limit + 1), "    ")
    assert long_functions(inside)


def test_only_a_command_declares_its_options_apart() -> None:
    limit = printed_limit("none over")
    allowed = function_of(limit + 42, decorator="@guarded", options=40)
    assert not long_functions(allowed)
    assert long_functions(allowed + "\n    pass")
    assert long_functions(allowed.replace("@guarded", "@cached"))


def test_a_long_file_is_seen() -> None:
    limit = printed_limit("no file over")
    assert not is_long("pass\n" * limit)
    assert is_long("pass\n" * (limit + 1))


def test_commands_are_what_declares_options() -> None:
    """`guarded` is how the size test tells a command, so nothing else may wear it."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function) and "guarded" in map(ast.unparse, node.decorator_list):
                assert (dotted(path).split(".")[1], node.name) == ("cli", "command")
