"""The table: seeds averaged, protocols apart, published figures beside, marks with reasons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.samples import failed_run, metric_row, metrics, run_evidence
from understudy.bench.evidence.evidence import write_all_evidence, write_run_evidence
from understudy.bench.evidence.seal import sealed_bytes
from understudy.bench.evidence.shareable import dataset_name
from understudy.bench.evidence.store import read_store
from understudy.bench.tables.benchmark_table import BenchmarkTable, build_table
from understudy.bench.tables.columns import Wanted
from understudy.bench.tables.run_figures import our_figures
from understudy.bench.tables.table_text import text_table
from understudy.bench.tables.table_words import notes
from understudy.errors import UserError
from understudy.methods.config import config_to_json, resolve_config
from understudy.methods.registry import get_method

ACCURACY = "gen2real accuracy"


def accuracy(value: float | None, variant: str = "cnn") -> dict[str, object]:
    return metric_row(ACCURACY, value, variant)


def table_of(
    folder: Path, *, published: bool | None = False, trusted_only: bool = False
) -> BenchmarkTable:
    return build_table(read_store(folder), published=published, trusted_only=trusted_only)


def test_seeds_are_averaged_with_students_interval(tmp_path: Path) -> None:
    values = (0.80, 0.82, 0.87)
    runs = [run_evidence(seed=s, rows=[accuracy(v)]) for s, v in enumerate(values)]
    write_all_evidence(tmp_path, runs)
    (figure,) = our_figures(read_store(tmp_path)).figures
    found = figure.interval()
    assert found.value == pytest.approx(0.83)
    # Standard deviation sqrt((0.0009 + 0.0001 + 0.0016) / 2), t of two degrees of freedom 4.3027.
    assert found.high - found.value == pytest.approx(4.30265 * 0.0360555 / 3**0.5, rel=1e-4)
    shown = text_table(table_of(tmp_path))
    assert "83.0 ±9.0 (3)" in shown
    assert "mnist: gen2real accuracy ↑, %, higher is better" in shown


def test_one_seed_keeps_its_own_interval(tmp_path: Path) -> None:
    write_all_evidence(tmp_path, [run_evidence(rows=[accuracy(0.8)])])
    shown = text_table(table_of(tmp_path))
    assert "80.0 ±1.0 (1)" in shown
    assert "real data  97.0" in shown
    assert "chance     10.0" in shown


def test_an_interval_stays_within_the_metrics_bounds(tmp_path: Path) -> None:
    runs = [run_evidence(seed=s, rows=[accuracy(v)]) for s, v in enumerate((0.99, 0.95))]
    write_all_evidence(tmp_path, runs)
    (figure,) = our_figures(read_store(tmp_path)).figures
    assert figure.interval().high == 1.0


def test_protocols_never_share_a_column(tmp_path: Path) -> None:
    other = run_evidence(seed=1, rows=[accuracy(0.5)])
    changed = metrics([accuracy(0.3)])
    changed["protocol"]["seeds"] = 1
    runs = [
        run_evidence(rows=[accuracy(0.8)]),
        run_evidence(seed=1, rows=[accuracy(0.5)], protocol="reduced", stamp="reduced: no"),
        run_evidence(seed=2, metrics=changed),
    ]
    write_all_evidence(tmp_path, [*runs, other])
    table = table_of(tmp_path, published=True)
    for block in table.blocks:
        for column in block.columns:
            ids = {c.protocol_id for (_, c) in block.entries if c == column}
            assert len(ids) == 1
    ours = [c for c in table.columns() if c.dataset == "mnist" and c.protocol == "standard"]
    assert len({column.protocol_id for column in ours}) == 2
    shown = text_table(table_of(tmp_path))
    assert "protocol reduced, ours; reduced: no" in shown
    assert shown.count("protocol standard (") == 2
    assert "65.0" in shown  # the mean of 0.8 and 0.5, and of nothing else


def test_a_published_figure_shares_a_column_only_with_the_same_protocol(tmp_path: Path) -> None:
    from understudy.bench.tables.published_columns import published_beside
    from understudy.evaluation.protocol import load_protocol

    found, _ = published_beside((), Wanted(datasets=("mnist",)), everything=True)
    shared = next(f for f in found if f.column.protocol == "dpimagebench-validation")
    row = metric_row(ACCURACY, 0.6, shared.column.variant)
    same = {**metrics([row]), "protocol": load_protocol("dpimagebench-validation").to_json()}
    changed = {**same, "protocol": {**same["protocol"], "seeds": 9}}
    runs = [
        run_evidence("dp-gan", epsilon=shared.column.epsilon, metrics=same),
        run_evidence("dp-merf", epsilon=shared.column.epsilon, metrics=changed),
    ]
    write_all_evidence(tmp_path, runs)
    table = build_table(read_store(tmp_path), Wanted(datasets=("mnist",)))
    (block,) = [b for b in table.blocks if b.metric == ACCURACY]
    sources: dict[str, set[str]] = {}
    for line, column in block.entries:
        sources.setdefault(column.protocol_id, set()).add(line.source or line.method)
    assert sources[shared.column.protocol_id] == {"dp-gan", "dpimagebench"}
    assert {"dp-merf"} in sources.values()


def test_the_best_of_a_column_is_marked_by_the_metrics_direction(tmp_path: Path) -> None:
    rows = {"dp-merf": (0.8, 0.30), "dp-gan": (0.7, 0.20)}
    runs = [
        run_evidence(method, rows=[accuracy(a), metric_row("FD[random-conv]", d)])
        for method, (a, d) in rows.items()
    ]
    write_all_evidence(tmp_path, runs)
    best = {
        (block.metric, line.method)
        for block in table_of(tmp_path).blocks
        for (line, _), entry in block.entries.items()
        if entry.best
    }
    assert best == {(ACCURACY, "dp-merf"), ("FD[random-conv]", "dp-gan")}


def test_failures_are_rows_with_reasons(tmp_path: Path) -> None:
    runs = [
        run_evidence(rows=[accuracy(0.8), metric_row("FID", None)]),
        failed_run("out of memory", method="dpdm"),
        failed_run("no such file", method="pe", dataset="fashion-mnist"),
    ]
    write_all_evidence(tmp_path, runs)
    shown = text_table(table_of(tmp_path))
    assert "dpdm       failed" in shown
    assert "failed: dpdm on mnist, epsilon 1, seed 0: out of memory" in shown
    assert "failed: pe on fashion-mnist, epsilon 1, seed 0: no such file" in shown
    assert "! dp-merf on mnist, epsilon 1, FID: seed 0: no weights" in shown


def test_a_run_that_ended_well_beats_the_failures_of_its_key(tmp_path: Path) -> None:
    good = run_evidence()
    write_all_evidence(tmp_path, [failed_run(keys=good.keys), good])
    assert table_of(tmp_path).failed == ()


def test_of_two_runs_of_one_cell_the_later_counts(tmp_path: Path) -> None:
    runs = [
        run_evidence(rows=[accuracy(v)], keys={**run_evidence().keys, "evaluate": k * 64})
        for v, k in ((0.9, "1"), (0.6, "2"))
    ]
    write_all_evidence(tmp_path, runs)
    table = table_of(tmp_path)
    assert "60.0 ±1.0 (1)" in text_table(table)
    assert "1 runs are left out for later runs of the same cell or data" in table.notes


def test_runs_on_other_contents_of_a_dataset_are_not_averaged(tmp_path: Path) -> None:
    runs = [
        run_evidence(seed=seed, rows=[accuracy(v)], data_hash=content * 64)
        for seed, v, content in ((0, 0.9, "a"), (1, 0.6, "b"))
    ]
    write_all_evidence(tmp_path, runs)
    assert "60.0 ±1.0 (1)" in text_table(table_of(tmp_path))


def settings_of(method: str, epsilon: float, **changes: object) -> dict[str, object]:
    preset = resolve_config(get_method(method), "mnist", epsilon).config
    return config_to_json(preset) | changes


def test_configurations_of_one_method_are_told_apart(tmp_path: Path) -> None:
    runs = [
        run_evidence(rows=[accuracy(v)], settings=settings_of("dp-merf", 1.0, steps=steps))
        for steps, v in ((10, 0.8), (20, 0.9))
    ]
    write_all_evidence(tmp_path, runs)
    shown = text_table(table_of(tmp_path))
    assert "dp-merf steps=10  80.0" in shown
    assert "dp-merf steps=20  90.0" in shown


def test_a_preset_and_what_departs_from_it_are_told_apart(tmp_path: Path) -> None:
    """By the departures, not by all in which presets of two budgets differ; and in full, where
    names that are cut short would be the same."""
    assert settings_of("dp-feta", 1.0) != settings_of("dp-feta", 10.0)
    long = {"first_setting_of_many": 1, "second_setting_of_many": 2}
    kinds: list[tuple[float, float, dict[str, object]]] = [
        (1.0, 0.7, {}),
        (10.0, 0.8, {}),
        (10.0, 0.9, {"steps": 30}),
        (10.0, 0.6, long | {"steps": 40}),
        (10.0, 0.5, long | {"steps": 50}),
    ]
    runs = [
        run_evidence(
            "dp-feta",
            rows=[accuracy(v)],
            epsilon=epsilon,
            settings=settings_of("dp-feta", epsilon, **changes),
        )
        for epsilon, v, changes in kinds
    ]
    write_all_evidence(tmp_path, runs)
    names = {line.split("  ")[0] for line in text_table(table_of(tmp_path)).splitlines()}
    words = ", ".join(f"{name}={value}" for name, value in long.items())
    told = {"", " steps=30", *(f" {words}, steps={n}" for n in (40, 50))}
    assert {name for name in names if name.startswith("dp-feta")} == {f"dp-feta{t}" for t in told}


def test_configurations_that_depart_alike_are_told_by_all_in_which_they_differ(
    tmp_path: Path,
) -> None:
    runs = [
        run_evidence("elsewhere", rows=[accuracy(v)], settings={"steps": steps, "width": 4})
        for steps, v in ((10, 0.8), (20, 0.9))
    ]
    write_all_evidence(tmp_path, runs)
    shown = text_table(table_of(tmp_path))
    assert "elsewhere steps=10  80.0" in shown
    assert "elsewhere steps=20  90.0" in shown


def test_untrusted_evidence_is_marked_and_never_averaged_in(tmp_path: Path) -> None:
    runs = [run_evidence(seed=s, rows=[accuracy(0.8)]) for s in range(3)]
    path, *_ = write_all_evidence(tmp_path, runs)
    content = json.loads(path.read_text())
    content["metrics"]["rows"][0]["value"] = 0.99
    path.write_bytes(sealed_bytes({k: v for k, v in content.items() if k != "seal"}))
    shown = text_table(table_of(tmp_path))
    assert "dp-merf    80.0 ±0.0 (2)" in shown
    assert "dp-merf?   99.0" in shown
    assert f"untrusted: {path.name} (unlisted" in shown
    trusted = text_table(table_of(tmp_path, trusted_only=True))
    assert "?" not in trusted
    assert "80.0 ±0.0 (2)" in trusted


def test_limited_runs_are_marked(tmp_path: Path) -> None:
    stamp = "limited to 100 records"
    write_all_evidence(tmp_path, [run_evidence(rows=[accuracy(0.5)], limit=100, stamp=stamp)])
    shown = text_table(table_of(tmp_path))
    assert "dp-merf (limited)" in shown
    assert stamp in shown


def test_published_figures_stand_beside_ours_with_reasons(tmp_path: Path) -> None:
    write_all_evidence(tmp_path, [run_evidence("dp-merf", epsilon=10.0, rows=[accuracy(0.8)])])
    table = table_of(tmp_path, published=None)
    shown = text_table(table)
    assert "published by dpimagebench" in shown
    assert any(line.startswith("† not sound as published: gs-wgan") for line in notes(table))
    assert {column.epsilon for column in table.columns()} == {10.0}
    assert {block.metric for block in table.blocks} == {ACCURACY}
    assert max(len(line) for line in shown.splitlines()) <= 100
    assert "gs-wgan" not in text_table(table_of(tmp_path))


def test_published_figures_alone_take_directions_from_the_metric_classes(tmp_path: Path) -> None:
    wanted = Wanted(datasets=("mnist",), metrics=("FID", ACCURACY))
    table = build_table(read_store(tmp_path), wanted, published=True)
    directions = {block.metric: block.facts.direction for block in table.blocks}
    assert directions == {"FID": "lower", ACCURACY: "higher"}


def test_a_choice_that_nothing_answers_to_is_refused(tmp_path: Path) -> None:
    write_all_evidence(tmp_path, [run_evidence()])
    with pytest.raises(
        UserError, match="--dataset 'mnits': no figure has it here; did you mean mnist"
    ):
        build_table(read_store(tmp_path), Wanted(datasets=("mnits",)), published=False)


def test_a_table_says_whose_figures_it_holds(tmp_path: Path) -> None:
    """Before somebody publishes it: no noise protects what is measured on an owner's data."""
    write_run_evidence(tmp_path, run_evidence())
    told = "for the owner alone, measured on data not declared public: photos"
    assert told not in build_table(read_store(tmp_path), published=False).notes
    write_run_evidence(tmp_path, run_evidence(dataset="photos", public=False))
    assert told in build_table(read_store(tmp_path), published=False).notes
    public = build_table(read_store(tmp_path), Wanted(datasets=("mnist",)), published=False)
    assert told not in public.notes


def test_an_owners_folder_never_stands_among_a_public_datasets_figures() -> None:
    place = "/" + "srv/scans/"
    assert dataset_name(f"{place}mnist") == "own mnist"
    assert dataset_name(f"{place}ward-7") == "ward-7"
    assert dataset_name("mnist") == "mnist"
