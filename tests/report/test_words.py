from __future__ import annotations

import math
import random

import pytest

from understudy.report import words


def test_epsilon_is_never_shown_below_its_value() -> None:
    draw = random.Random(1)
    for _ in range(500):
        epsilon = 10 ** draw.uniform(-6, 6)
        shown = float(words.epsilon_up(epsilon))
        assert epsilon <= shown <= epsilon * 1.001 + 1e-12


def test_delta_is_never_shown_below_its_value() -> None:
    assert words.power_of_ten(1 / 60000) == "1.67 × 10⁻⁵"
    assert words.power_of_ten(0.05) == "0.05"


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-3), (3.0, 0.05)])
def test_guess_ceiling_is_the_best_point_of_the_trade_off(epsilon: float, delta: float) -> None:
    grid = [i / 20000 for i in range(20001)]
    best = 0.0
    for false_positive in grid:
        true_positive = min(
            math.exp(epsilon) * false_positive + delta,
            1 - (1 - false_positive - delta) * math.exp(-epsilon),
            1.0,
        )
        best = max(best, (true_positive + 1 - false_positive) / 2)
    assert words.guess_ceiling(epsilon, delta) == pytest.approx(best, abs=1e-4)


def test_a_percentage_below_certainty_never_reads_100() -> None:
    assert words.percent_up(words.guess_ceiling(12.0, 0.0)) == "99.9994%"
    assert words.percent_up(1.0) == "practically 100%"
    assert words.percent_up(words.guess_ceiling(700.0, 0.0)) == "practically 100%"


def test_small_measured_numbers_do_not_become_zero() -> None:
    assert words.to_precision(0.0, 0.1) == "0.00"
    assert words.to_precision(3.2e-7, 0.1) == "3.2 × 10⁻⁷"
    assert words.to_precision(-0.123, 0.01) == "−0.123"
    assert words.number(math.nan) == "not a number"


def test_clean_takes_controls_and_lone_surrogates_but_leaves_words() -> None:
    assert words.clean("Ärzte 日本 🙂\nline") == "Ärzte 日本 🙂\nline"
    assert "\u202e" not in words.clean("a\u202eb")
    assert words.clean("\udc80").encode("utf-8")


def test_unbroken_escapes_what_it_wraps() -> None:
    html = words.unbroken("<b>delta 1e-5</b>")
    assert html == '&lt;b&gt;delta <span class="nowrap">1e-5</span>&lt;/b&gt;'


def test_settings_read_as_words() -> None:
    assert words.plain(None) == "not set"
    assert words.plain(True) == "yes"
    assert words.plain([1, 0.5, "a"]) == "1, 0.5, a"
    assert words.plain(60000) == "60,000"
    assert words.plain([]) == "none"
