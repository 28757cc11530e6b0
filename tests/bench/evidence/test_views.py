"""SQL over evidence: right answers, one sentence for wrong questions, nothing but reading."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.samples import MACHINE, failed_run, metric_row, run_evidence
from understudy.bench.evidence.evidence import write_all_evidence, write_measurement
from understudy.bench.evidence.store import Store, read_store
from understudy.bench.evidence.views import VIEWS, answer_csv, answer_json, answer_text, ask
from understudy.errors import UserError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    runs = [
        run_evidence(m, seed=s, rows=[metric_row("gen2real accuracy", v + s / 10, "cnn")])
        for m, v in (("dp-merf", 0.5), ("dp-gan", 0.7))
        for s in range(2)
    ]
    write_all_evidence(tmp_path, [*runs, failed_run(method="dpdm")])
    write_measurement(
        tmp_path,
        "speed",
        provenance=MACHINE,
        command="python speed.py",
        config={},
        seeds=[],
        seconds={"all": 2.0},
        peak_gigabytes=None,
        result={"rate": 7},
    )
    return read_store(tmp_path)


def rows(store: Store, query: str) -> list[tuple[Any, ...]]:
    return list(ask(store, query).rows)


def test_each_view_answers(store: Store) -> None:
    query = "SELECT method, round(avg(value), 3) FROM metrics GROUP BY method ORDER BY method"
    assert rows(store, query) == [("dp-gan", 0.75), ("dp-merf", 0.55)]
    assert rows(store, "SELECT count(*), count(*) FILTER (status = 'failed') FROM runs") == [(5, 1)]
    assert rows(store, "SELECT DISTINCT phase, seconds FROM phases ORDER BY phase")[0] == (
        *("evaluate", 2.0),
    )
    assert rows(store, "SELECT DISTINCT key, value FROM settings") == [("steps", "10")]
    assert rows(store, "SELECT name, result->>'rate' FROM measurements") == [("speed", "7")]
    query = "SELECT count(*) > 1000, max(epsilon) > 1 FROM published WHERE sound <> ''"
    assert rows(store, query) == [(True, True)]
    query = "SELECT DISTINCT trust, run_status, protocol FROM metrics"
    assert rows(store, query) == [("trusted", "ok", "standard")]


def test_every_view_is_shown(store: Store) -> None:
    assert {name for (name,) in rows(store, "SHOW TABLES")} >= set(VIEWS)


def test_untrusted_files_say_so_and_can_be_left_out(store: Store) -> None:
    path = min(store.folder.glob("*dp-gan*seed0*.json"))
    path.write_text(path.read_text().replace('"value": 0.7', '"value": 0.9'))
    found = read_store(store.folder)
    query = "SELECT trust, count(*) FROM runs GROUP BY trust ORDER BY trust"
    assert rows(found, query) == [("edited", 1), ("trusted", 4)]
    assert list(ask(found, query, trusted_only=True).rows) == [("trusted", 4)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT nothing FROM runs", "nothing"),
        ("DROP TABLE runs", "must be one SELECT"),
        ("SELECT 1; SELECT 2", "must be one SELECT"),
        ("", "must be one SELECT"),
        ("COPY runs TO 'x.csv'", "must be one SELECT"),
        ("SET enable_external_access = true", "must be one SELECT"),
        ("SELECT * FROM read_csv('pyproject.toml')", "disabled"),
        ("SELECT * FROM read_text('pyproject.toml')", "disabled"),
        ("SELECT * FROM store", "does not exist; the views are runs, metrics, .* and published"),
        ("SELECT metrik FROM metrics", 'Referenced column "metrik".*; DESCRIBE .* lists'),
    ],
)
def test_a_wrong_question_gets_one_sentence(store: Store, query: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as found:
        ask(store, query)
    assert "\n" not in str(found.value)


def test_answers_as_text_csv_and_json(store: Store) -> None:
    answer = ask(store, "SELECT '=1' AS a, NULL AS b, 1.5::DOUBLE AS c, [1, 2] AS d, 'inf'::DOUBLE")
    assert answer_text(answer).splitlines()[-1] == "1 row"
    assert answer_csv(answer).splitlines()[1] == '\'=1,,1.5,"[1, 2]",inf'
    assert json.loads(json.dumps(answer_json(answer), allow_nan=False))["rows"] == [
        ["=1", None, 1.5, [1, 2], "inf"]
    ]


def test_without_duckdb_the_extra_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UserError, match=r"understudy\[bench\]"):
        ask(store, "SELECT 1")
