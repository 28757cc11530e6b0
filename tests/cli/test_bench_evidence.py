"""`understudy bench table | compare | sql` through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.samples import metric_row, run_evidence
from understudy.bench.evidence.evidence import write_all_evidence
from understudy.cli.main import run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    runs = [
        run_evidence(m, seed=s, rows=[metric_row("gen2real accuracy", v + s / 100, "cnn")])
        for m, v in (("dp-merf", 0.8), ("dp-gan", 0.7))
        for s in range(2)
    ]
    write_all_evidence(tmp_path / "evidence", runs)
    return tmp_path / "evidence"


def test_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "table", "--evidence", str(folder), "--no-published"]) == 0
    assert "dp-merf    80.5 ±" in capsys.readouterr().out
    out = folder.parent / "table.tex"
    words = ["bench", "table", "--evidence", str(folder), "--format", "latex", "-o", str(out)]
    assert run(words) == 0
    assert out.read_text().startswith(r"\begin{table}")
    assert run(words) == 2
    assert "table.tex exists already" in capsys.readouterr().err
    assert run([*words[:-1], str(folder.parent / "no" / "table.tex")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert run(["bench", "table", "--evidence", str(folder), "--format", "latx"]) == 2
    assert "did you mean latex?" in capsys.readouterr().err
    assert run(["bench", "table", "--evidence", str(folder / "no")]) == 2
    assert "no evidence folder" in capsys.readouterr().err


def test_compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "compare", "dp-merf", "dp-gan", "--evidence", str(folder)]
    assert run(words) == 0
    assert "A better" in capsys.readouterr().out
    assert run([*words, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["differences"]
    assert found["difference"] == pytest.approx(-0.1)
    for metric in ("gen2real", "gen2real accuracy"):
        assert run([*words, "--metric", metric, "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["differences"]) == 1
    assert run([*words, "--metric", "gen2rael accuracy"]) == 2
    assert "did you mean gen2real accuracy?" in capsys.readouterr().err
    assert run([*words[:3], "dp-gam", *words[4:]]) == 2
    assert "did you mean dp-gan" in capsys.readouterr().err


def test_sql(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "sql", "SELECT count(*) AS n FROM metrics", "--evidence", str(folder)]
    assert run(words) == 0
    assert capsys.readouterr().out == "n\n4\n1 row\n"
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"columns": ["n"], "rows": [[4]]}
    assert run([*words, "--csv"]) == 0
    assert capsys.readouterr().out == "n\n4\n"
    assert run([*words, "--csv", "--json"]) == 2
    next(folder.glob("*.json")).unlink()
    assert run(words) == 0
    assert "is in the index and gone" in capsys.readouterr().err
