"""Rendered pages for the tests to read."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from tests.report.examples import empirical_claim, empirical_ledger, example_data, example_owner
from understudy.report.model import OwnerData, ReportData
from understudy.report.render import render_owner, render_public

VOID_TAGS = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """The page as a browser takes it: elements, nesting, and text outside of styles."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def both(data: ReportData, owner: OwnerData | None = None) -> list[str]:
    return [render_public(data), render_owner(data, owner or example_owner())]


def empirical_data() -> ReportData:
    return replace(example_data(), claim=empirical_claim(), ledger=empirical_ledger())
