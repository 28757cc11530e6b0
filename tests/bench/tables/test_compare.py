"""Differences by pairs of seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.samples import MACHINE, metric_row, run_evidence
from understudy.bench.evidence.evidence import RunEvidence, write_all_evidence
from understudy.bench.tables.compare import compare
from understudy.bench.tables.compare_text import comparison_json, comparison_text
from understudy.errors import UserError

ACCURACY = "gen2real accuracy"


def run(method: str, seed: int, value: float, **changes: object) -> RunEvidence:
    return run_evidence(
        method,
        seed=seed,
        rows=[metric_row(ACCURACY, value, "cnn")],
        **changes,  # type: ignore[arg-type]
    )


def test_seeds_are_paired(tmp_path: Path) -> None:
    a, b = (0.70, 0.80, 0.90), (0.72, 0.83, 0.91)
    runs = [run("dp-merf", s, v) for s, v in enumerate(a)]
    runs += [run("dp-gan", s, v) for s, v in enumerate(b)]
    write_all_evidence(tmp_path, runs)
    (found,) = compare(tmp_path, "dp-merf", "dp-gan").differences
    # Differences 0.02, 0.03, 0.01: mean 0.02, deviation 0.01, t 4.30265, over the root of 3.
    half = 4.30265 * 0.01 / 3**0.5
    assert found.interval.value == pytest.approx(0.02)
    assert found.interval.low == pytest.approx(0.02 - half, rel=1e-4)
    assert found.interval.high == pytest.approx(0.02 + half, rel=1e-4)
    assert [found.a, found.b, found.pairs] == pytest.approx([0.8, 0.82, 3])
    assert found.verdict == "within noise"


def test_a_steady_difference_is_more_than_noise(tmp_path: Path) -> None:
    runs = [run("dp-merf", s, v) for s, v in enumerate((0.70, 0.80, 0.90))]
    runs += [run("dp-gan", s, v) for s, v in enumerate((0.73, 0.83, 0.931))]
    write_all_evidence(tmp_path, runs)
    (found,) = compare(tmp_path, "dp-merf", "dp-gan").differences
    assert found.verdict == "B better"
    (turned,) = compare(tmp_path, "dp-gan", "dp-merf").differences
    assert turned.verdict == "A better"
    shown = comparison_text(compare(tmp_path, "dp-merf", "dp-gan"))
    assert "mnist, epsilon 1, protocol standard" in shown
    assert "+3.0" in shown


def test_lower_is_better_where_the_metric_says_so(tmp_path: Path) -> None:
    runs = [
        run_evidence(m, seed=s, rows=[metric_row("FID", v + s / 1000)])
        for m, v in (("dp-merf", 20.0), ("dp-gan", 10.0))
        for s in range(3)
    ]
    write_all_evidence(tmp_path, runs)
    (found,) = compare(tmp_path, "dp-merf", "dp-gan").differences
    assert found.verdict == "B better"


def test_without_pairs_two_intervals_are_combined(tmp_path: Path) -> None:
    write_all_evidence(tmp_path, [run("dp-merf", 0, 0.8), run("dp-gan", 1, 0.81)])
    found = compare(tmp_path, "dp-merf", "dp-gan")
    (one,) = found.differences
    assert one.pairs == 0
    assert one.interval.high - one.interval.value == pytest.approx(0.01 * 2**0.5)
    assert comparison_json(found)["differences"][0]["verdict"] == "within noise"


def test_suites_commits_files_and_folders(tmp_path: Path) -> None:
    later = replace(MACHINE, commit="b" * 40)
    runs = [run("dp-merf", s, 0.8, suite="one") for s in range(2)]
    runs += [run("dp-merf", s, 0.9, suite="two", provenance=later) for s in range(2)]
    paths = write_all_evidence(tmp_path, runs)
    by_file = compare(tmp_path, str(paths[0]), str(paths[2]))
    by_suite = compare(tmp_path, "one", "two")
    by_commit = compare(tmp_path, "a" * 7, "b" * 7)
    for found in (by_suite, by_commit, by_file):
        assert [d.interval.value for d in found.differences] == [pytest.approx(0.1)]
    other = tmp_path / "other"
    write_all_evidence(other, [run("dp-merf", 0, 0.7)])
    assert compare(tmp_path, str(other), str(other)).differences[0].verdict == "within noise"


def test_edited_evidence_is_left_out(tmp_path: Path) -> None:
    runs = [run(m, s, 0.8) for m in ("dp-merf", "dp-gan") for s in range(3)]
    path, *_ = write_all_evidence(tmp_path, runs)
    path.write_text(path.read_text().replace('"value": 0.8', '"value": 0.99'))
    found = compare(tmp_path, "dp-merf", "dp-gan")
    assert (found.differences[0].pairs, found.left_out) == (2, 1)
    assert "1 files are left out: they are not trusted" in comparison_text(found)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    runs = [run("dp-merf", 0, 0.8), run("dp-gan", 0, 0.8, protocol="reduced")]
    runs += [run("pe", 0, 0.8, settings={"steps": n}) for n in (1, 2)]
    write_all_evidence(tmp_path, runs)
    with pytest.raises(UserError, match="share no column"):
        compare(tmp_path, "dp-merf", "dp-gan")
    with pytest.raises(UserError, match=r"'dp-merv' is no method.*did you mean dp-merf"):
        compare(tmp_path, "dp-merv", "dp-gan")
    with pytest.raises(UserError, match="give two of one kind"):
        compare(tmp_path, "smoke", "dp-gan")
    with pytest.raises(UserError, match="pe has several configurations"):
        compare(tmp_path, "dp-merf", "pe")
    with pytest.raises(UserError, match="names 0 commits"):
        compare(tmp_path, "aaaaaaa", "ccccccc")


def test_one_run_a_side_says_what_its_interval_leaves_out(tmp_path: Path) -> None:
    write_all_evidence(tmp_path, [run("dp-merf", 0, 0.7), run("dp-gan", 0, 0.9)])
    assert "not another run of either method" in comparison_text(
        compare(tmp_path, "dp-merf", "dp-gan")
    )
