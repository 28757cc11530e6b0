"""Every example in README and docs runs, and prints what its page says it prints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docs.pages import REPOSITORY, Block, all_pages, blocks, name_of
from tests.docs.running import Reader, Shown, same_output, shown_commands

LANGUAGES = {"python", "console", "text", "json", "toml", "yaml", ""}


def _runs(block: Block) -> bool:
    return block.language in ("python", "console") and block.mark is None


PAGES = [page for page in all_pages() if any(_runs(block) for block in blocks(page))]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader in an empty folder, with an account book and caches of their own."""
    desk = tmp_path / "desk"
    desk.mkdir()
    monkeypatch.chdir(desk)
    monkeypatch.syspath_prepend(str(desk))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(desk), str(REPOSITORY)]))
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hub" / "datasets"))
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    return Reader(desk)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_run(page: Path, reader: Reader) -> None:
    for block in blocks(page):
        reader.follow(block)


def test_examples_are_found() -> None:
    """A mistake in the search must not make the suite pass by running nothing."""
    runnable = [block for page in PAGES for block in blocks(page) if _runs(block)]
    assert {"README.md", "docs/guide.md"} <= {name_of(page) for page in PAGES}
    assert sum(block.language == "python" for block in runnable) >= 5
    assert sum(block.language == "console" for block in runnable) >= 8


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_blocks_have_a_known_language(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block.place}: {block.language!r}"


def test_a_command_goes_on_after_a_backslash() -> None:
    found = shown_commands("$ understudy verify \\\n    out\nconsistent\n$ understudy spent x")
    assert found == [
        Shown("understudy verify out", "consistent"),
        Shown("understudy spent x", ""),
    ]


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        ("epsilon 1.00", "epsilon 1.00\n", True),
        ("digest …\ndone", "digest 12ab\ndone\n", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("value  chance", "value     chance  ", True),
        ("epsilon 1.00", "epsilon 1.01\n", False),
        ("digest …\ndone", "digest 12ab\nfailed\n", False),
        ("a.c", "abc", False),
    ],
)
def test_output_is_compared_with_gaps(wanted: str, got: str, same: bool) -> None:
    assert same_output(wanted, got) is same


def test_an_example_that_is_wrong_is_noticed(reader: Reader) -> None:
    page = REPOSITORY / "README.md"
    reader.follow(Block(page, 1, "python", "print(1 + 1)"))
    reader.follow(Block(page, 2, "text", "2"))
    with pytest.raises(AssertionError, match="but it is"):
        reader.follow(Block(page, 2, "text", "3"))
    with pytest.raises(AssertionError, match="gave 2"):
        reader.follow(Block(page, 3, "console", "$ understudy verify nothing-here"))
    with pytest.raises(AssertionError, match="cannot run"):
        reader.follow(Block(page, 4, "console", "$ rm -rf everything"))
    reader.follow(Block(page, 5, "python", "1 / 0", mark="not run", words="it cannot"))
