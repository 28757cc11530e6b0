from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from understudy.report import svg


def _parsed(chart: Markup) -> ElementTree.Element:
    return ElementTree.fromstring(chart)


def _of_class(chart: Markup, css: str) -> list[ElementTree.Element]:
    return [e for e in _parsed(chart).iter() if css in e.get("class", "").split()]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.61, 0.97), (-3e-7, 8e-7), (0, 60000), (5, 5)])
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    values = svg.ticks(low, high, 6)
    assert 1 <= len(values) <= 7
    slack = 1e-9 * max(abs(low), abs(high))
    assert all(low - slack <= v <= high + slack for v in values)


def test_a_bar_has_the_length_of_its_value() -> None:
    rows = [svg.Bar("half", 5.0, "5"), svg.Bar("whole", 10.0, "10")]
    chart = svg.bars(rows, width=400, axis="epsilon", described="d")
    half, whole = (float(e.get("width", "")) for e in _of_class(chart, "bar"))
    assert whole == pytest.approx(2 * half, abs=0.1)


def test_an_infinite_bar_fills_the_width_without_numbers_on_the_axis() -> None:
    chart = svg.bars([svg.Bar("x", math.inf, "infinite")], width=400, axis="epsilon", described="d")
    assert float(_of_class(chart, "bar")[0].get("width", "")) > 300
    assert not _of_class(chart, "tick")


def test_the_limit_line_stands_at_its_value() -> None:
    chart = svg.bars(
        [svg.Bar("x", 10.0, "10")],
        width=400,
        axis="e",
        described="d",
        limit=svg.Limit(5.0, "budget 5"),
    )
    bar, limit = _of_class(chart, "bar")[0], _of_class(chart, "limit")[0]
    assert float(limit.get("x1", "")) == pytest.approx(float(bar.get("width", "")) / 2, abs=0.1)
    assert "budget 5" in chart


def test_names_cannot_break_out_of_a_chart() -> None:
    name = '</text><script>alert(1)</script>\x00" onload="x'
    chart = svg.bars([svg.Bar(name, 1.0, name)], width=900, axis=name, described=name)
    assert "<script" not in chart
    assert {e.tag for e in _parsed(chart).iter()} <= {"svg", "line", "rect", "text", "title"}
    assert all("onload" not in e.attrib for e in _parsed(chart).iter())


def test_a_cut_label_keeps_its_whole_in_the_tooltip() -> None:
    name = "a very long name " * 20
    chart = svg.bars([svg.Bar(name, 1.0, "1")], width=328, axis="", described="d")
    titles = [e.text for e in _parsed(chart).iter("title")]
    assert titles == [name]


def _dot(**changes: object) -> svg.DotInterval:
    base: dict[str, object] = {
        "label": "accuracy",
        "value": 0.8,
        "low": 0.7,
        "high": 0.9,
        "reference": 0.95,
        "chance": 0.1,
        "text": "0.80",
    }
    return svg.DotInterval(**{**base, **changes})  # type: ignore[arg-type]


def test_a_dot_lies_within_its_interval_on_the_metric_s_own_bounds() -> None:
    chart = svg.dot_intervals([_dot()], width=500, axis="", described="d", bounds=(0.0, 1.0))
    dot, interval = _of_class(chart, "dot")[0], _of_class(chart, "interval")[0]
    low, high = (float(interval.get(k, "")) for k in ("x1", "x2"))
    assert low < float(dot.get("cx", "")) < high
    right = float(_of_class(chart, "track")[0].get("x2", ""))
    assert low / right == pytest.approx(0.7, abs=0.01)
    assert _of_class(chart, "reference")
    assert _of_class(chart, "chance")


def test_a_failed_row_keeps_its_place_without_a_mark() -> None:
    rows = [_dot(), _dot(value=None, low=None, high=None, text="failed", failed=True)]
    chart = svg.dot_intervals(rows, width=500, axis="", described="d", bounds=(0.0, 1.0))
    assert len(_of_class(chart, "track")) == 2
    assert len(_of_class(chart, "dot")) == 1
    assert _of_class(chart, "failed")[0].text == "failed"


def test_rows_without_any_number_still_draw() -> None:
    row = _dot(value=None, low=None, high=None, reference=None, chance=None, failed=True)
    _parsed(svg.dot_intervals([row], width=328, axis="", described="d", bounds=(None, None)))


def test_values_that_are_not_finite_leave_a_gap_in_a_line() -> None:
    ys = [1.0, 2.0, math.nan, 3.0, math.inf, 4.0]
    chart = svg.lines(range(6), ys, width=360, x_label="step", y_label="loss", described="d")
    path = _of_class(chart, "series")[0].get("d", "")
    assert path.count("M") == 3
    assert "nan" not in chart
    assert "inf" not in path


@pytest.mark.parametrize("ys", [[], [math.nan], [2.0], [0.0, 0.0]])
def test_short_and_flat_series_draw(ys: list[float]) -> None:
    _parsed(svg.lines(range(len(ys)), ys, width=360, x_label="x", y_label="y", described="d"))


def test_thinning_keeps_the_spike() -> None:
    ys = [0.0] * 100_000
    ys[54_321] = 9.0
    points = svg.thinned(range(len(ys)), ys)
    assert len(points) <= 500
    assert max(points, key=lambda p: p[1]) == (54_321.0, 9.0)


def test_certainty_rises_from_a_coin_toss() -> None:
    toss = svg.certainty(0.5, "at most 50%", width=400, described="d")
    sure = svg.certainty(1.0, "at most 100%", width=400, described="d")
    lengths = [float(_of_class(c, "total")[0].get("width", "")) for c in (toss, sure)]
    assert lengths == [2.0, 400.0]


def test_both_widths_are_drawn() -> None:
    widths: list[float] = []

    def draw(width: float) -> Markup:
        widths.append(width)
        return Markup("<svg></svg>")

    page = svg.at_both_widths(draw)
    assert widths == [760.0, 328.0]
    assert page.count("<svg>") == 2
