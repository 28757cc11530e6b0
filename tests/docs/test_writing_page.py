"""The examples of the page for authors are the toys that the contract tests run."""

from __future__ import annotations

from tests.docs.toys_page import PAGE, TOYS, filled, named


def test_the_page_shows_the_toys_as_they_are() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text) == text, "run python -m tests.docs.toys_page"


def test_it_shows_all_of_them() -> None:
    toys = {path.stem for path in TOYS.glob("*.py")} - {"__init__"}
    assert sorted(named(PAGE.read_text(encoding="utf-8"))) == sorted(toys)


def test_a_toy_that_changed_is_seen() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text.replace("class Evolution:", "class Revolution:")) != text.replace(
        "class Evolution:", "class Revolution:"
    )
