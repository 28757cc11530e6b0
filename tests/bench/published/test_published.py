"""The reader of published figures: what is right is taken as it stands, what is wrong is named."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from understudy.bench.published import Figure, published, sources
from understudy.bench.published.reading import COLUMNS, read_figures, read_sources
from understudy.errors import UserError

ROW = {
    "table": "1",
    "method": "dp-merf",
    "dataset": "mnist",
    "epsilon": "10",
    "delta": "1e-5",
    "metric": "gen2real accuracy",
    "variant": "cnn",
    "value": "82.5",
    "spread": "0.3",
    "unit": "percent",
    "protocol": "last-epoch",
    "note": "",
}
FACTS: dict[str, object] = {
    "citation": "A paper.",
    "address": "https://example.org",
    "tables": {1: "Accuracy"},
    "protocols": {"last-epoch": {"words": "A CNN, last epoch.", "ours": None}},
    "soundness": {"dp-merf": {"sound": "yes", "reason": "One Gaussian release."}},
}


def write_csv(path: Path, rows: Iterable[dict[str, str]], columns: Iterable[str] = COLUMNS) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([*row.values()] for row in rows)


def write(folder: Path, *rows: dict[str, str], facts: object = FACTS) -> None:
    (folder / "paper.yaml").write_text(yaml.safe_dump(facts))
    write_csv(folder / "paper.csv", rows)


def read(folder: Path) -> tuple[Figure, ...]:
    return read_figures(folder, read_sources(folder), "paper")


def test_a_row_is_taken_as_it_stands(tmp_path: Path) -> None:
    write(tmp_path, ROW)
    (figure,) = read(tmp_path)
    assert (figure.source, figure.table, figure.method) == ("paper", "1", "dp-merf")
    assert (figure.epsilon, figure.delta, figure.value, figure.spread) == (10.0, 1e-5, 82.5, 0.3)
    assert (figure.sound, figure.reason) == ("yes", "One Gaussian release.")


def test_what_may_be_empty_may(tmp_path: Path) -> None:
    empty = dict.fromkeys(("epsilon", "delta", "variant", "spread", "note"), "")
    write(tmp_path, ROW | empty, ROW | {"epsilon": "inf"}, ROW | {"value": "-2.71"})
    bare, infinite, negative = read(tmp_path)
    assert (bare.epsilon, bare.delta, bare.spread) == (None, None, None)
    assert infinite.epsilon == math.inf
    assert negative.value == -2.71


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"value": "82,5"}, "value is '82,5'; write a plain number"),
        ({"value": "nan"}, "value is 'nan'"),
        ({"value": ""}, "value is empty"),
        ({"value": " 82.5"}, "value has blanks around '82.5'"),
        ({"spread": "±0.3"}, "spread is"),
        ({"delta": "10^-5"}, "delta is"),
        ({"epsilon": "0"}, "more than 0"),
        ({"epsilon": "infinity"}, "epsilon is 'infinity'"),
        ({"table": "2"}, "no table '2'"),
        ({"method": "dp-merv"}, "no soundness entry for method 'dp-merv'; did you mean dp-merf?"),
        ({"protocol": "last-epok"}, "did you mean last-epoch?"),
        ({"unit": ""}, "unit is empty"),
    ],
)
def test_a_wrong_field_is_named_with_file_and_line(
    tmp_path: Path, change: dict[str, str], words: str
) -> None:
    write(tmp_path, ROW, ROW | {"note": "second"} | change)
    with pytest.raises(UserError) as error:
        read(tmp_path)
    assert str(error.value).startswith("paper.csv line 3")
    assert words in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "dp-gan"},
        {"dataset": "fashion-mnist"},
        {"epsilon": "1"},
        {"metric": "FID"},
        {"variant": "mlp"},
        {"note": "another seed"},
    ],
)
def test_a_repeated_figure_is_refused_and_a_new_one_is_not(
    tmp_path: Path, change: dict[str, str]
) -> None:
    both = {m: {"sound": "yes", "reason": "Known."} for m in ("dp-merf", "dp-gan")}
    write(tmp_path, ROW, ROW | change, facts=FACTS | {"soundness": both})
    assert len(read(tmp_path)) == 2
    write(tmp_path, ROW, ROW | {"value": "83"})
    with pytest.raises(UserError, match=r"paper\.csv line 3 repeats paper\.csv line 2"):
        read(tmp_path)


def test_figures_may_lie_in_several_files_and_repeat_in_none(tmp_path: Path) -> None:
    write(tmp_path, ROW)
    write_csv(tmp_path / "paper-appendix.csv", [ROW | {"dataset": "fashion-mnist"}])
    assert [figure.dataset for figure in read(tmp_path)] == ["fashion-mnist", "mnist"]
    write_csv(tmp_path / "paper-appendix.csv", [ROW])
    with pytest.raises(UserError, match=r"paper\.csv line 2 repeats paper-appendix\.csv line 2"):
        read(tmp_path)


def test_a_file_belongs_to_the_source_with_the_longest_name(tmp_path: Path) -> None:
    write(tmp_path, ROW)
    (tmp_path / "paper-two.yaml").write_text(yaml.safe_dump(FACTS))
    write_csv(tmp_path / "paper-two.csv", [ROW | {"value": "1"}])
    known = read_sources(tmp_path)
    assert [figure.value for figure in read_figures(tmp_path, known, "paper")] == [82.5]
    assert [figure.value for figure in read_figures(tmp_path, known, "paper-two")] == [1.0]


def test_a_file_without_a_source_and_a_source_without_a_file(tmp_path: Path) -> None:
    write(tmp_path, ROW)
    write_csv(tmp_path / "papier.csv", [ROW])
    with pytest.raises(UserError, match=r"papier\.csv belongs to no source"):
        read(tmp_path)
    (tmp_path / "papier.csv").unlink()
    (tmp_path / "paper.csv").unlink()
    with pytest.raises(UserError, match=r"write paper\.csv"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([*COLUMNS, "citation"], "no column 'citation'"),
        (["tabel", *COLUMNS[1:]], "did you mean table?"),
        (COLUMNS[:-1], "the columns are table,method"),
        ([], "the columns are table,method"),
    ],
)
def test_the_header_is_the_one_agreed(tmp_path: Path, columns: list[str], words: str) -> None:
    write(tmp_path, ROW)
    write_csv(tmp_path / "paper.csv", [], columns)
    with pytest.raises(UserError) as error:
        read(tmp_path)
    assert str(error.value).startswith("paper.csv line 1")
    assert words in str(error.value)


@pytest.mark.parametrize("line", ["1,dp-merf", '"1,dp-merf'])
def test_a_line_that_is_cut_off_is_refused(tmp_path: Path, line: str) -> None:
    write(tmp_path, ROW)
    with (tmp_path / "paper.csv").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UserError, match=r"paper\.csv line 3"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (FACTS | {"tabels": {}}, "did you mean tables?"),
        ({k: v for k, v in FACTS.items() if k != "citation"}, "does not say `citation`"),
        (FACTS | {"protocols": {"last-epoch": {"words": "A CNN."}}}, "`words` and `ours`"),
        (FACTS | {"protocols": {"last-epoch": {"words": "", "ours": None}}}, "told in words"),
        (FACTS | {"protocols": {"last-epoch": {"words": "A.", "ours": 3}}}, "`ours` names"),
        (FACTS | {"soundness": {"dp-merf": {"sound": "maybe", "reason": "A."}}}, "'maybe'"),
        (FACTS | {"soundness": {"dp-merf": {"sound": "no", "reason": " "}}}, "told in words"),
        (FACTS | {"soundness": {"dp-merf": "no"}}, "`sound` and `reason`"),
        (FACTS | {"tables": ["1"]}, "a mapping by name"),
        ([FACTS], "must be a mapping"),
    ],
)
def test_a_wrong_description_is_named(tmp_path: Path, facts: object, words: str) -> None:
    write(tmp_path, ROW, facts=facts)
    with pytest.raises(UserError) as error:
        read(tmp_path)
    assert str(error.value).startswith("paper.yaml")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("written", "sound"),
    [("yes", "yes"), ("no", "no"), ('"no"', "no"), ("unclear", "unclear"), ("none", "none")],
)
def test_a_flag_may_be_written_without_quotes(tmp_path: Path, written: str, sound: str) -> None:
    write(tmp_path, ROW)
    text = (tmp_path / "paper.yaml").read_text()
    (tmp_path / "paper.yaml").write_text(text.replace("sound: 'yes'", f"sound: {written}"))
    assert [figure.sound for figure in read(tmp_path)] == [sound]


def test_an_unknown_source_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean deco-bench"):
        published("deco-bensh")
    assert {figure.source for figure in published("deco-bench")} == {"deco-bench"}


def test_all_sources_come_together() -> None:
    assert len(published()) == sum(len(published(name)) for name in sources())


def test_reading_needs_neither_torch_nor_numpy() -> None:
    script = (
        "import sys\nfrom understudy.bench.published import published\nassert published()\n"
        "assert not {'torch', 'numpy', 'dp_accounting'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[3])
