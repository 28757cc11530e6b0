"""Links between pages lead somewhere, and so do the paths that pages name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import REPOSITORY, all_pages, code_spans, name_of, prose

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_PATH = re.compile(r"(?:understudy|tests|docs|benchmarks|\.ci)/[\w./*-]*")
_TEST = re.compile(r"(tests/[\w./-]+\.py)::(\w+)")


def anchor(heading: str) -> str:
    """How a heading is addressed on the site that shows these pages.

    >>> anchor("What `verify` checks, and what it cannot")
    'what-verify-checks-and-what-it-cannot'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(heading) for heading in _HEADING.findall(prose(page))}


def problem_with(link: str, page: Path) -> str | None:
    """Why a link on a page leads nowhere; addresses on the web are not followed."""
    if re.match(r"[a-z]+:", link):
        return None
    name, _, wanted = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return f"{link} does not exist"
    if wanted and wanted not in anchors(target):
        return f"{name or name_of(page)} has no heading for #{wanted}"
    return None


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    found = [problem_with(link, page) for link in _LINK.findall(prose(page))]
    assert not [problem for problem in found if problem]


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_named_paths_exist(page: Path) -> None:
    for span in code_spans(page):
        path = span.partition("::")[0]
        if _PATH.fullmatch(path):
            assert list(REPOSITORY.glob(path.rstrip("/"))), f"{name_of(page)}: no {path}"


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_named_tests_exist(page: Path) -> None:
    for file, test in _TEST.findall(prose(page)):
        text = (REPOSITORY / file).read_text(encoding="utf-8")
        assert re.search(rf"^(class|def) {test}\b", text, re.MULTILINE), f"no {test} in {file}"


def test_every_page_of_docs_can_be_reached_from_the_index() -> None:
    index = REPOSITORY / "docs" / "index.md"
    linked = {
        (index.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(prose(index))
    }
    missing = [name_of(p) for p in (REPOSITORY / "docs").rglob("*.md") if p.resolve() not in linked]
    assert missing == ["docs/index.md"]


def test_a_broken_link_is_noticed() -> None:
    page = REPOSITORY / "docs" / "index.md"
    assert problem_with("claims.md", page) is None
    assert problem_with("https://example.org/nothing", page) is None
    assert problem_with("clams.md", page) == "clams.md does not exist"
    assert problem_with("claims.md#nothing", page) == "claims.md has no heading for #nothing"
