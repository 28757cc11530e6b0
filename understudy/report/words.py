"""Numbers and terms as a reader meets them. A bound is only ever rounded to its safe side."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, Decimal
from typing import Any

from markupsafe import Markup, escape

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SMALL_NUMBER = re.compile(r"\b\d[\d.]*e-\d+")
_UNSAFE_CONTROLS = dict.fromkeys(
    (
        *(c for c in range(0x20) if c not in (0x09, 0x0A, 0x0D)),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),  # bidirectional embeddings and overrides
        *range(0x2066, 0x206A),  # bidirectional isolates
    ),
    "\N{REPLACEMENT CHARACTER}",
)


def clean(text: str) -> str:
    """Text that cannot reorder or break the page around it.

    >>> clean("cat\\x00") == "cat\\N{REPLACEMENT CHARACTER}"
    True
    """
    return text.translate(_UNSAFE_CONTROLS).encode("utf-8", "replace").decode("utf-8")


def unbroken(text: str) -> Markup:
    """Escaped text in which no number like 1e-5 is torn at its hyphen."""
    return Markup(_SMALL_NUMBER.sub(r'<span class="nowrap">\g<0></span>', str(escape(clean(text)))))


def shorten(text: str, most: int) -> str:
    """At most `most` characters, the last of them an ellipsis where some were dropped."""
    return text if len(text) <= most else text[: max(most - 1, 1)].rstrip() + "…"


def number(value: float, digits: int = 4) -> str:
    """A plain number to some significant digits, with separators for thousands.

    >>> number(1234567.0), number(0.25), number(3.14159)
    ('1,234,567', '0.25', '3.142')
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("−∞" if value < 0 else "∞")
    if value == 0 or 1e-4 <= abs(value) < 1e15:
        decimals = 0 if value == 0 else max(digits - 1 - math.floor(math.log10(abs(value))), 0)
        text = f"{value:,.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        text = _power(Decimal(mantissa), int(exponent))
    return text.replace("-", "−")


def to_precision(value: float, width: float | None) -> str:
    """A number to two digits of the width of its interval; small ones never become zero.

    >>> to_precision(0.81234, 0.0159), to_precision(0.00001, 0.012), to_precision(2.5, None)
    ('0.812', '10⁻⁵', '2.5')
    """
    if width is None or not 0 < width < math.inf:
        return number(value)
    decimals = min(max(1 - math.floor(math.log10(width)), 0), 8)
    if value and abs(value) < 0.5 * 10.0**-decimals:
        return number(value)
    return f"{value:,.{decimals}f}".replace("-", "−")


def epsilon_up(value: float) -> str:
    """Epsilon to four significant digits, rounded up: never below what is claimed.

    >>> epsilon_up(9.98712), epsilon_up(10.0), epsilon_up(float("inf"))
    ('9.988', '10', 'infinite')
    """
    return "infinite" if math.isinf(value) else f"{_rounded_up(value, 4):f}"


def power_of_ten(value: float) -> str:
    """A small probability as people write it.

    >>> power_of_ten(1e-5), power_of_ten(2.5e-6)
    ('10⁻⁵', '2.5 × 10⁻⁶')
    """
    rounded = _rounded_up(value, 3)
    exponent = rounded.adjusted()
    if exponent >= -2:
        return f"{rounded:f}"
    return _power(rounded.scaleb(-exponent), exponent)


def _power(mantissa: Decimal, exponent: int) -> str:
    power = "10" + str(exponent).translate(_SUPERSCRIPTS)
    return power if mantissa == 1 else f"{mantissa.normalize():f} × {power}"


def _rounded_up(value: float, digits: int) -> Decimal:
    exact = Decimal(repr(float(value)))
    if exact == 0:
        return exact
    step = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    return exact.quantize(step, rounding=ROUND_CEILING).normalize()


def one_in(value: float) -> str:
    """A probability as a count.

    >>> one_in(1e-5)
    '1 in 100,000'
    """
    return f"1 in {number(1 / value)}"


def guess_ceiling(epsilon: float, delta: float) -> float:
    """The best rate of right guesses at an even bet, under (epsilon, delta).

    A test's true- and false-positive rates obey TPR <= e^epsilon FPR + delta, and so do
    their complements; at equal odds it is then right with probability at most
    (e^epsilon + delta) / (1 + e^epsilon). Attained by some mechanism, so not improvable.

    >>> round(guess_ceiling(1.0, 0.0), 3), guess_ceiling(0.0, 0.0)
    (0.731, 0.5)
    """
    shrink = math.exp(-epsilon)
    return min((1 + delta * shrink) / (1 + shrink), 1.0)


def percent_up(fraction: float) -> str:
    """A percentage rounded up, with as many decimals as it takes to stay below 100.

    >>> percent_up(0.7311), percent_up(0.9999546)
    ('73.2%', '99.996%')
    """
    exact = Decimal(repr(fraction)) * 100
    for decimals in range(1, 7):
        rounded = exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_CEILING)
        if rounded < 100:
            return f"{rounded}%"
    return "practically 100%"


def duration(seconds: float) -> str:
    """A time span in the two units that matter.

    >>> duration(0.0421), duration(83.2), duration(7260)
    ('0.042 s', '1 min 23 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{number(seconds, 2 if seconds < 10 else 3)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def plain(value: Any) -> str:
    """A setting's value as text."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, 6)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, list | tuple):
        return ", ".join(plain(v) for v in value) or "none"
    return str(value)
