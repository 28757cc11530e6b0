"""DPImageBench's figures: nothing missing, nothing mistyped, nothing without its judgement."""

from __future__ import annotations

import shutil
import statistics
from collections import Counter, defaultdict
from importlib.resources import files
from pathlib import Path

import pytest

from understudy.bench.published import Figure, published, sources
from understudy.bench.published.reading import read_figures, read_sources
from understudy.errors import UserError
from understudy.evaluation.protocol import load_protocol
from understudy.evaluation.utility import Gen2RealAccuracy

ACCURACY = "gen2real accuracy"
CHOSEN = ", chosen on private validation"

# 13 methods x 7 datasets x 2 epsilons, 13 x 6 metrics, 13 x 7 costs, 13 x 6 epsilons,
# 5 or 8 methods x 5 sizes, 11 or 12 methods x 4, 12 x 8; the logs have gaps.
COUNTS = {
    "accuracy": 182,
    "fidelity-mnist": 78,
    "fidelity-fashion-mnist": 78,
    "fidelity-cifar-10": 78,
    "fidelity-cifar-100": 78,
    "fidelity-eurosat": 78,
    "fidelity-celeba": 78,
    "fidelity-camelyon": 78,
    "cost": 91,
    "epsilon-accuracy": 78,
    "epsilon-fid": 78,
    "epsilon-is": 78,
    "epsilon-precision": 78,
    "epsilon-recall": 78,
    "epsilon-fld": 78,
    "size-gan-accuracy": 25,
    "size-gan-fid": 25,
    "size-diffusion-accuracy": 40,
    "size-diffusion-fid": 40,
    "pretraining-cifar-10": 44,
    "conditional-cifar-10": 48,
    "pretraining-fashion-mnist": 44,
    "conditional-fashion-mnist": 48,
    "pretraining-source": 96,
    "logs": 126,
    "log-times": 33,
}

# Most drawn at random from the file, all read off the source by eye:
# table | method | dataset | epsilon | metric | variant | value
SPOT_CHECKS = """
accuracy | pdp-diffusion | cifar-10 | 1 | gen2real accuracy | best of three | 59.3
accuracy | dp-kernel | mnist | 1 | gen2real accuracy | best of three | 94.0
accuracy | dp-ldm-sd | mnist | 10 | gen2real accuracy | best of three | 94.4
accuracy | dpdm | fashion-mnist | 1 | gen2real accuracy | best of three | 76.4
accuracy | pe | camelyon | 1 | gen2real accuracy | best of three | 63.3
accuracy | dp-lora | celeba | 1 | gen2real accuracy | best of three | 87.0
accuracy | dp-gan | mnist | 10 | gen2real accuracy | best of three | 92.7
fidelity-mnist | pdp-diffusion | mnist | 10 | precision[inception-v3] | | 0.61
fidelity-fashion-mnist | pe | fashion-mnist | 10 | FID | | 23.1
fidelity-eurosat | pe | eurosat | 10 | recall[inception-v3] | | 0.69
fidelity-camelyon | dpdm | camelyon | 10 | FLD on train[inception-v3] | | -2.71
fidelity-celeba | dp-gan | celeba | 10 | ImageReward | ImageReward-v1.0 | -0.69
cost | dp-ntk | cifar-10 | | sampling time | | 0.05
cost | dp-ldm-sd | cifar-10 | | peak memory | | 96.3
epsilon-accuracy | dp-lora | fashion-mnist | 20 | gen2real accuracy | best of three, sweep over epsilon | 85.2
epsilon-fid | dp-gan | fashion-mnist | 5 | FID | sweep over epsilon | 41.7
epsilon-fid | gs-wgan | fashion-mnist | 15 | FID | sweep over epsilon | 94.5
epsilon-is | dp-ldm | fashion-mnist | 0.2 | Inception Score | sweep over epsilon | 2.83
epsilon-recall | dp-feta | fashion-mnist | 5 | recall[inception-v3] | sweep over epsilon | 0.39
epsilon-fld | pe | fashion-mnist | 5 | FLD on train[inception-v3] | sweep over epsilon | 16.8
size-gan-fid | dp-ntk | cifar-10 | 10 | FID | 14.3 million weights | 436.4
size-diffusion-fid | dp-ldm | cifar-10 | 10 | FID | 77.4 million weights | 26.0
pretraining-cifar-10 | gs-wgan | cifar-10 | 10 | gen2real accuracy | best of three, with pre-training | 20.1
conditional-fashion-mnist | privimage | fashion-mnist | 10 | gen2real accuracy | best of three, unconditional pre-training | 79.5
pretraining-source | gs-wgan | fashion-mnist | 10 | gen2real accuracy | best of three, pre-trained on Places365 | 62.3
logs | dp-gan | celeba | 10 | gen2real accuracy | resnext-29-8-4, chosen on private validation | 86.48
log-times | privimage | fashion-mnist | 10 | fitting time | | 954
"""  # noqa: E501  one check a line

# The six shipped logs by which it was found that the main table prints the best of three.
LOGGED_BEST = [
    ("dp-feta", "mnist", 1.0),
    ("pe", "cifar-10", 1.0),
    ("privimage", "fashion-mnist", 10.0),
    ("gs-wgan", "mnist", 10.0),
    ("dp-merf", "celeba", 10.0),
    ("dp-ldm-sd", "camelyon", 1.0),
]


@pytest.fixture(scope="module")
def figures() -> tuple[Figure, ...]:
    return published("dpimagebench")


def test_every_table_has_its_count(figures: tuple[Figure, ...]) -> None:
    assert Counter(figure.table for figure in figures) == COUNTS
    assert set(sources()["dpimagebench"].tables) == set(COUNTS)


@pytest.mark.parametrize("check", SPOT_CHECKS.strip().splitlines())
def test_spot_check(figures: tuple[Figure, ...], check: str) -> None:
    table, method, dataset, epsilon, metric, variant, value = (
        field.strip() for field in check.split("|")
    )
    found = [
        figure.value
        for figure in figures
        if (figure.table, figure.method, figure.dataset) == (table, method, dataset)
        and figure.epsilon == (float(epsilon) if epsilon else None)
        and (figure.metric, figure.variant) == (metric, variant)
    ]
    assert found == [float(value)]


def test_no_cell_of_a_column_has_two_figures(figures: tuple[Figure, ...]) -> None:
    cells = Counter(
        (f.method, f.dataset, f.epsilon, f.metric, f.variant, f.protocol) for f in figures
    )
    assert [cell for cell, count in cells.items() if count > 1] == []


def test_a_column_of_a_protocol_has_one_unit(figures: tuple[Figure, ...]) -> None:
    units: dict[tuple[str, str], set[str]] = defaultdict(set)
    for figure in figures:
        units[figure.metric, figure.protocol].add(figure.unit)
    assert all(len(found) == 1 for found in units.values()), units


def test_values_lie_where_their_units_allow(figures: tuple[Figure, ...]) -> None:
    for figure in figures:
        highest = {"percent": 100.0, "fraction": 1.0}.get(figure.unit, float("inf"))
        lowest = 0.0 if highest < float("inf") or figure.metric == "FID" else float("-inf")
        assert lowest <= figure.value <= highest, figure
        assert (figure.unit == "percent") == (figure.metric == ACCURACY), figure


def test_only_the_published_epsilons(figures: tuple[Figure, ...]) -> None:
    found: dict[str, set[float | None]] = defaultdict(set)
    for figure in figures:
        found[figure.table.split("-")[0]].add(figure.epsilon)
    swept: set[float | None] = {0.2, 1.0, 5.0, 10.0, 15.0, 20.0}
    assert found.pop("epsilon") == swept
    assert found.pop("cost") == {None}
    assert found.pop("accuracy") == found.pop("logs") == found.pop("log") == {1.0, 10.0}
    assert set(found) == {"fidelity", "size", "pretraining", "conditional"}
    assert all(epsilons == {10.0} for epsilons in found.values())


def test_delta_is_theirs_wherever_an_epsilon_stands(figures: tuple[Figure, ...]) -> None:
    assert all((figure.delta is None) == (figure.epsilon is None) for figure in figures)
    by_dataset = {figure.dataset: figure.delta for figure in figures if figure.delta}
    assert by_dataset["mnist"] == pytest.approx(1.6657508770e-6)
    assert by_dataset["cifar-10"] == pytest.approx(2.0740485113e-6)


def test_every_method_is_judged_and_every_protocol_used(figures: tuple[Figure, ...]) -> None:
    source = sources()["dpimagebench"]
    assert {figure.method for figure in figures} == set(source.soundness)
    assert {figure.protocol for figure in figures} == set(source.protocols)
    unsound = {name for name, judged in source.soundness.items() if judged.sound == "no"}
    assert unsound == {"dp-kernel", "gs-wgan", "dp-feta", "dp-lora"}
    assert source.soundness["dp-ntk"].sound == "unclear"


def test_logged_classifiers_have_the_names_of_our_own_rows(figures: tuple[Figure, ...]) -> None:
    variants = {
        name: {row.variant for row in Gen2RealAccuracy.instances(load_protocol(protocol.ours))}
        for name, protocol in sources()["dpimagebench"].protocols.items()
        if protocol.ours is not None
    }
    logged = [f for f in figures if f.table == "logs" and f.protocol in variants]
    assert len(logged) == 53
    for figure in logged:
        assert figure.variant.split(";")[0] in variants[figure.protocol], figure


def test_a_logged_mean_is_that_of_its_classifiers(figures: tuple[Figure, ...]) -> None:
    means = [f for f in figures if f.protocol.startswith("validation-mean")]
    for mean in means:
        scores = _logged(figures, mean.method, mean.dataset, mean.epsilon)
        assert len(scores) == 3
        assert mean.value == pytest.approx(statistics.mean(scores), abs=0.0101), mean
        assert mean.spread == pytest.approx(statistics.pstdev(scores), abs=0.0101), mean
    assert len(means) == 11


@pytest.mark.parametrize(("method", "dataset", "epsilon"), LOGGED_BEST)
def test_the_main_table_prints_the_best_of_the_logged(
    figures: tuple[Figure, ...], method: str, dataset: str, epsilon: float
) -> None:
    (printed,) = [
        figure.value
        for figure in figures
        if figure.table == "accuracy"
        and (figure.method, figure.dataset, figure.epsilon) == (method, dataset, epsilon)
    ]
    assert printed == pytest.approx(max(_logged(figures, method, dataset, epsilon)), abs=0.0501)


def test_a_method_without_a_judgement_does_not_load(tmp_path: Path) -> None:
    shipped = files("understudy.bench.published")
    for name in ("dpimagebench.csv", "dpimagebench.yaml"):
        shutil.copy(str(shipped.joinpath(name)), tmp_path / name)
    assert len(read_figures(tmp_path, read_sources(tmp_path), "dpimagebench")) == 1856
    words = (tmp_path / "dpimagebench.yaml").read_text(encoding="utf-8")
    (tmp_path / "dpimagebench.yaml").write_text(words.replace("  dp-lora:", "  dp-loro:"))
    with pytest.raises(UserError, match="did you mean dp-loro"):
        read_figures(tmp_path, read_sources(tmp_path), "dpimagebench")


def _logged(
    figures: tuple[Figure, ...], method: str, dataset: str, epsilon: float | None
) -> list[float]:
    """The accuracies that a run's log reports; earlier evaluations say so in the variant."""
    return [
        figure.value
        for figure in figures
        if figure.protocol in ("validation", "validation-cifar")
        and figure.variant.endswith(CHOSEN)
        and (figure.method, figure.dataset, figure.epsilon) == (method, dataset, epsilon)
    ]
