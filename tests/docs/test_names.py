"""Commands, options and Python names in the pages are those of the package, and all of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.core
import typer.main

import understudy
from tests.docs.pages import REPOSITORY, all_pages, blocks, code_spans, name_of
from understudy.cli.main import app

REFERENCE = REPOSITORY / "docs" / "reference.md"
_COMMAND = re.compile(r"(?:^|\$ |-m )understudy(?: ([a-z][a-z-]*))?((?: +[^\n|]*)?)")
_WORD = re.compile(r" +([a-z][a-z-]*)")
_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
_MAKE = re.compile(r"(?:^|\$ )make ([a-z-]+)")


@functools.cache
def verbs() -> dict[str, set[str]]:
    """Every verb of the command line with its options; those of `bench` as `bench run`."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return dict(_verbs_of(group, ""))


def _verbs_of(group: typer.core.TyperGroup, before: str) -> Iterator[tuple[str, set[str]]]:
    for name, command in group.commands.items():
        words = [o for p in command.params for o in (*p.opts, *p.secondary_opts)]
        options = {word for word in words if word.startswith("-")}
        yield f"{before}{name}", options | {"-h", "--help"}
        if isinstance(command, typer.core.TyperGroup):
            yield from _verbs_of(command, f"{before}{name} ")


def code_lines(page: Path) -> Iterator[str]:
    """Spans of code and the commands in console blocks, one a line."""
    yield from code_spans(page)
    for block in blocks(page):
        if block.language == "console":
            yield from re.sub(r"\\\n *", " ", block.text).splitlines()


def unknown_commands(line: str) -> list[str]:
    """What a line of code asks of `understudy` that it does not have."""
    known = verbs()
    wrong: list[str] = []
    for verb, rest in _COMMAND.findall(line):
        below = _WORD.match(rest)
        if below and any(name.startswith(f"{verb} ") for name in known):
            verb = f"{verb} {below[1]}"
        if verb and verb not in known:
            wrong.append(f"understudy {verb}")
        elif verb:
            wrong += [f"{verb} {o}" for o in _OPTION.findall(rest) if o not in known[verb]]
    return wrong


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_commands_and_their_options_exist(page: Path) -> None:
    assert [wrong for line in code_lines(page) for wrong in unknown_commands(line)] == []


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_options_named_alone_exist(page: Path) -> None:
    known = set[str]().union(*verbs().values()) | {"--version"}
    alone = [span.split("=")[0].split()[0] for span in code_spans(page) if span.startswith("--")]
    assert [option for option in alone if option not in known] == []


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_make_targets_exist(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    asked = [target for line in code_lines(page) for target in _MAKE.findall(line)]
    assert [target for target in asked if target not in targets] == []


def test_the_reference_names_every_verb_and_option() -> None:
    spans = set(code_spans(REFERENCE))
    for verb, options in verbs().items():
        assert any(f"{span} ".startswith(f"understudy {verb} ") for span in spans), verb
        section = _section(verb)
        assert {o for o in options if o not in section} == set(), f"of {verb}"


def _section(verb: str) -> str:
    """The part of the reference under the heading of one verb, and what it says of all."""
    text = REFERENCE.read_text(encoding="utf-8")
    common = text.partition("## Commands")[2].partition("\n### ")[0]
    _, found, rest = text.partition(f"\n### `understudy {verb}`")
    assert found, f"no heading for {verb}"
    return common + re.split(r"\n##+ ", rest)[0]


def test_the_reference_names_every_public_name_and_no_other() -> None:
    table = REFERENCE.read_text(encoding="utf-8").partition("## Python names")[2]
    named = set(re.findall(r"^\| `(\w+)", table, re.MULTILINE))
    assert named == set(understudy.__all__)


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_names_of_the_package_exist(page: Path) -> None:
    python = [block.text for block in blocks(page) if block.language == "python"]
    for text in [*python, *code_spans(page)]:
        for name in re.findall(r"(?<![\w.])understudy\.(\w+)(?=[ (,)]|$)", text):
            home = REPOSITORY / "understudy" / name
            found = hasattr(understudy, name) or home.is_dir() or home.with_suffix(".py").exists()
            assert found, f"{name_of(page)}: no understudy.{name}"


def test_wrong_names_are_noticed() -> None:
    assert unknown_commands("understudy verify out --digest abc") == []
    assert unknown_commands("$ understudy verify out --digets abc") == ["verify --digets"]
    assert unknown_commands("python -m understudy verifi out") == ["understudy verifi"]
    assert unknown_commands("understudy bench new-method x -o x.py") == []
    assert unknown_commands("understudy bench new-metod x") == ["understudy bench new-metod"]
    assert unknown_commands("understudy bench new-method x --uot y") == ["bench new-method --uot"]
