from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.report.examples import (
    central_claim,
    example_data,
    example_owner,
    gan_ledger,
    noise_samples,
)
from tests.report.page import Page, both
from understudy.report.model import Curve, ReportData
from understudy.report.render import render_owner, render_public

TWO_MEGABYTES = 2_000_000


def test_every_link_within_the_page_arrives() -> None:
    for html in both(example_data()):
        page = Page(html)
        ids = [a["id"] for _, a in page.elements if "id" in a]
        assert len(ids) == len(set(ids))
        targets = {a["href"] for _, a in page.elements if a.get("href", "").startswith("#")}
        assert targets
        assert {t[1:] for t in targets} <= set(ids)


@pytest.mark.parametrize(
    ("classes", "channels", "height", "width"),
    [(2, 1, 8, 8), (10, 3, 32, 32), (100, 1, 28, 28), (100, 3, 64, 48), (3, 3, 200, 40)],
)
def test_any_number_of_classes_fits_the_size(
    classes: int, channels: int, height: int, width: int
) -> None:
    samples = noise_samples(classes, 8, channels, height, width)
    html = render_public(replace(example_data(), samples=samples))
    assert len(html.encode()) < TWO_MEGABYTES
    page = Page(html)
    strips = [a for a in page.all("svg") if a.get("class") == "strip"]
    assert len(strips) == classes
    assert strips[-1][
        "aria-label"
    ] == f"{strips[-1]['aria-label'].split()[0]} synthetic images " + (
        f"of class class {classes - 1}"
    )
    assert html.count("data:image/png") == 1


def test_a_long_run_stays_under_the_size() -> None:
    steps, curve = 50_000, list(range(50_000))
    owner = replace(
        example_owner(), curves=tuple(Curve(f"curve {i}", curve, curve) for i in range(12))
    )
    ledger = gan_ledger(steps=steps, block=20)
    data = ReportData(
        title="long",
        claim=central_claim(ledger, steps=steps),
        ledger=ledger,
        samples=noise_samples(100, 8, 3, 64, 64),
    )
    assert len(render_owner(data, owner).encode()) < TWO_MEGABYTES


def test_headings_descend_without_gaps_and_tables_name_their_headers() -> None:
    for html in both(example_data()):
        page = Page(html)
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b - a <= 1 for a, b in pairwise(levels))
        assert all(a.get("scope") in ("row", "col") for a in page.all("th"))
        assert len(page.all("caption")) == len(page.all("table")) > 0
        assert page.all("html")[0]["lang"] == "en"
        assert page.all("main")
        for picture in page.all("svg"):
            assert picture.get("aria-label") or picture.get("aria-hidden") == "true"


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_contrasts_with_what_it_stands_on(scheme: int) -> None:
    css = render_public(example_data())
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", css.split(":root {")[1 + scheme]))
    for text in ("ink", "muted", "accent"):
        for ground in ("paper", "surface"):
            assert _contrast(colours[text], colours[ground]) >= 4.5
    for text, ground in (("danger", "danger-soft"), ("warn", "warn-soft"), ("ink", "accent-soft")):
        assert _contrast(colours[text], colours[ground]) >= 4.5
    for mark in ("fill", "danger-rule"):
        assert _contrast(colours[mark], colours["surface"]) >= 3


def test_phone_print_dark_and_calm_motion_are_provided_for() -> None:
    html = render_public(example_data())
    for rule in (
        "prefers-color-scheme: dark",
        "prefers-reduced-motion: reduce",
        "@media print",
        "size: A4",
        "max-width: 640px",
        "image-rendering: pixelated",
    ):
        assert rule in html
    assert "width=device-width" in html


def test_the_same_data_give_the_same_page() -> None:
    assert render_public(example_data()) == render_public(example_data())
