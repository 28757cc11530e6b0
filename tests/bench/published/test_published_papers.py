"""The figures of the papers: all there, none mistyped, each with its protocol and judgement."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from understudy.bench.published import Figure, published, sources
from understudy.evaluation.protocol import load_protocol

PAPERS = ("deco-bench", "dp-gan-dpac", "dp-imgsyn", "generative-filter")

# Two splits of 4 methods x 3 classifiers and 2 adversaries: 28; with Tr+V+G, which has no
# adversary figures: 40. Each count was compared with the text of the paper, cell by cell.
COUNTS = {
    "deco-bench": {
        **dict.fromkeys(("2", "3", "4", "5", "6", "7"), 28),
        "8": 4,
        **dict.fromkeys(("9", "10", "12", "13"), 12),
        "15": 14,
        **dict.fromkeys(("16", "17", "19", "20", "21", "22", "23"), 40),
        "24": 11,
    },
    "dp-gan-dpac": {"1": 35, "2": 31, "3": 12, "4": 36},
    "dp-imgsyn": {
        "1": 8,
        "2": 60,
        "3": 48,
        "4": 40,
        "section 4.5": 4,
        "6": 24,
        "8": 20,
        "9": 8,
        "10": 12,
        "11": 5,
        "12": 7,
        "13": 40,
    },
    "generative-filter": {"1": 6, "2": 16, "3": 50, "4": 4},
}


def spot_checks() -> list[dict[str, str]]:
    """Drawn at random from the files, some added for tables not hit; each read off the paper."""
    path = Path(__file__).with_name("published_spot_checks.csv")
    return list(csv.DictReader(path.read_text().splitlines()))


def matches(figure: Figure, expected: dict[str, str]) -> bool:
    """The same cell; a note is known by how it begins."""
    same = ("source", "table", "method", "dataset", "metric", "variant", "protocol")
    return (
        all(getattr(figure, name) == expected[name] for name in same)
        and figure.epsilon == (float(expected["epsilon"]) if expected["epsilon"] else None)
        and figure.note.startswith(expected["note"])
    )


@pytest.mark.parametrize(
    "expected", spot_checks(), ids=lambda row: f"{row['source']}-{row['value']}"
)
def test_spot_check(expected: dict[str, str]) -> None:
    (found,) = [f for f in published(expected["source"]) if matches(f, expected)]
    assert found.value == float(expected["value"])
    assert found.spread == (float(expected["spread"]) if expected["spread"] else None)


def test_there_are_enough_spot_checks_in_every_paper() -> None:
    per_paper = Counter(row["source"] for row in spot_checks())
    assert set(per_paper) == set(PAPERS)
    assert min(per_paper.values()) >= 5


@pytest.mark.parametrize("name", PAPERS)
def test_every_table_has_its_count(name: str) -> None:
    assert Counter(figure.table for figure in published(name)) == COUNTS[name]
    assert set(sources()[name].tables) == set(COUNTS[name])


@pytest.mark.parametrize("name", PAPERS)
def test_everything_described_is_used_and_everything_used_is_described(name: str) -> None:
    source, figures = sources()[name], published(name)
    assert {figure.protocol for figure in figures} == set(source.protocols)
    assert {figure.method for figure in figures} == set(source.soundness)
    ours = {"FID", "gen2real accuracy", "real2gen accuracy"}
    assert {figure.metric for figure in figures} - ours == set(source.metrics)


@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_has_protocol_and_judgement(name: str) -> None:
    for figure in published(name):
        assert len(sources()[name].protocols[figure.protocol].words) > 10
        assert len(figure.reason) > 20, figure
        assert (figure.epsilon is None) == (figure.sound == "none"), figure
        assert (figure.delta is None) == (figure.epsilon is None), figure


@pytest.mark.parametrize("name", PAPERS)
def test_values_lie_where_their_units_allow(name: str) -> None:
    for figure in published(name):
        highest = {"percent": 100.0, "fraction": 1.0}.get(figure.unit, float("inf"))
        assert 0.0 <= figure.value <= highest, figure


def test_our_protocols_that_are_named_exist() -> None:
    named = {p.ours for name in PAPERS for p in sources()[name].protocols.values() if p.ours}
    assert named == {"dpac-lenet"}
    for name in named:
        assert load_protocol(name).name == name


def test_the_judgements_that_matter_most() -> None:
    def flags(name: str, sound: str) -> set[str]:
        judged = sources()[name].soundness.items()
        return {method for method, entry in judged if entry.sound == sound}

    assert flags("dp-gan-dpac", "no") == {"dp-gan-dpac", "gs-wgan", "pate-gan", "dp-cgan", "g-pate"}
    assert flags("dp-gan-dpac", "yes") == {"dp-merf", "dp-sinkhorn"}
    assert flags("dp-imgsyn", "no") == {"dp-imgsyn", "dp-gan", "p3gm", "g-pate"}
    assert flags("deco-bench", "no") == {"deco-ce-dp"}
    assert flags("generative-filter", "none") == set(sources()["generative-filter"].soundness)


def test_a_method_is_judged_alike_wherever_it_is_quoted() -> None:
    ours, theirs = sources()["dp-imgsyn"].soundness, sources()["dp-gan-dpac"].soundness
    for method in set(ours) & set(theirs):
        assert ours[method] == theirs[method], method


def test_the_best_of_table_2_is_what_table_3_reports() -> None:
    """DP-ImgSyn's row of the comparison is the best student of table 2, aligned or not."""

    def own(table: str) -> list[Figure]:
        return [
            figure
            for figure in published("dp-imgsyn")
            if figure.table == table
            and figure.metric == "gen2real accuracy"
            and figure.method.startswith("dp-imgsyn")
        ]

    compared = own("3")
    assert len(compared) == 8
    for figure in compared:
        same = [f for f in own("2") if (f.dataset, f.epsilon) == (figure.dataset, figure.epsilon)]
        best = max(same, key=lambda f: f.value)
        assert (figure.value, figure.method) == (best.value, best.method)


def test_the_average_row_of_celeba_is_the_average() -> None:
    figures = [f for f in published("generative-filter") if f.table == "3"]
    for method in {figure.method for figure in figures}:
        row = {f.metric: f.value for f in figures if f.method == method}
        average = row.pop("hidden average accuracy")
        del row["kept smiling accuracy"]
        assert len(row) == 8
        assert average == pytest.approx(sum(row.values()) / 8, abs=0.0101), method
