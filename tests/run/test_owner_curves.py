"""Curves of the owner's report: each mechanism has those that its log holds, and no others."""

from __future__ import annotations

import pytest

from tests import drawing
from tests.run.aggregate_method import AGGREGATE
from tests.workplace import SMALL_MERF, Workplace
from understudy.release.verify import verify

SMALL_GAN = ("--method", "dp-gan", "--set", "steps=3", "--set", "batch=8")


@pytest.mark.parametrize(
    ("method", "shown", "absent"),
    [
        (("--method", AGGREGATE), ["mean: units drawn"], ["mean: loss", "mean: share clipped"]),
        (SMALL_GAN, [": loss", ": units drawn", ": share clipped"], []),
        (SMALL_MERF, [], [": units drawn"]),
    ],
)
def test_a_run_has_the_curves_of_its_mechanisms(
    workplace: Workplace, method: tuple[str, ...], shown: list[str], absent: list[str]
) -> None:
    drawing.class_folder(workplace / "photos", count=40)
    words = ("synthesize", "photos", "--epsilon", "5", "--samples", "8", "-o", "out", *method)
    workplace.run(*(w for w in words if w)).succeeded()
    report = (workplace / "runs/out/report.html").read_text()
    assert [words for words in shown if words not in report] == []
    assert [words for words in absent if words in report] == []
    public = (workplace / "runs/out/report-public.html").read_text()
    assert "units drawn" not in public
    assert verify(workplace / "out").ok
