from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.samples import encoded, picture, pixels_of, refused, save
from understudy.data.load import load

ROWS = [
    {"file_name": "z.png", "finding": "none", "site": 10, "patient": "p1"},
    {"file_name": "sub/a.png", "finding": "mass", "site": 9, "patient": "p1"},
    {"file_name": "b.png", "finding": "none", "site": 9, "patient": "p2"},
    {"file_name": "c.png", "finding": "mass", "site": 10, "patient": "p2"},
]


def as_csv(rows: list[dict[str, object]]) -> str:
    lines = [",".join(rows[0])] + [",".join(str(v) for v in row.values()) for row in rows]
    return "\ufeff" + "\r\n".join(lines)


def as_jsonl(rows: list[dict[str, object]]) -> str:
    return "\n".join(json.dumps(row) for row in rows) + "\n\n"


def write(folder: Path, rows: list[dict[str, object]], kind: str = "csv") -> Path:
    for value, row in enumerate(rows):
        save(folder / str(row["file_name"]), encoded(picture(value)))
    text = as_csv(rows) if kind == "csv" else as_jsonl(rows)
    save(folder / f"metadata.{kind}", text.encode())
    return folder


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_round_trip_in_the_order_of_rows(tmp_path, kind):
    records = load(write(tmp_path, ROWS, kind), label="finding").part("all")
    assert records.schema.names == ("finding", "site", "patient")
    assert records.schema.classes == ("mass", "none")
    assert records.labels.tolist() == [1, 0, 1, 0]
    assert records.schema.attribute("site").classes == ("9", "10")
    assert records.attributes["site"].tolist() == [1, 0, 0, 1]
    assert all((records.features[i] == pixels_of(picture(i))).all() for i in range(4))


def test_headers_are_read_without_the_blanks_around_them(tmp_path):
    write(tmp_path, ROWS)
    text = as_csv(ROWS).replace("file_name,finding", "file_name , finding\t")
    save(tmp_path / "metadata.csv", text.encode())
    assert load(tmp_path, label="finding").schema.names == ("finding", "site", "patient")


def test_the_unit_column_is_taken_out_of_the_attributes(tmp_path):
    records = load(write(tmp_path, ROWS), label="finding", unit="patient").part("all")
    assert records.schema.names == ("finding", "site")
    assert records.units is not None
    assert records.units.tolist() == ["p1", "p1", "p2", "p2"]


def test_parts_with_their_own_metadata(tmp_path):
    write(tmp_path / "train", ROWS)
    write(tmp_path / "validation", ROWS[:2], "jsonl")
    dataset = load(tmp_path, label="finding", unit="patient")
    assert {name: len(part) for name, part in dataset.parts.items()} == {
        "train": 4,
        "validation": 2,
    }


def test_identifiers_and_measurements_are_no_attributes_and_say_so(tmp_path):
    rows = [{"file_name": f"{i}.png", "id": i, "label": i % 2} for i in range(1001)]
    write(tmp_path, rows)
    assert load(tmp_path).schema.names == ("label",)
    with refused("'id'", "more than 1000 distinct values"):
        load(tmp_path, label="id")


def test_columns_that_cannot_be_labels_say_why(tmp_path):
    rows = [{**row, "age": 0.5 + i, "note": "" if i else "x"} for i, row in enumerate(ROWS)]
    write(tmp_path, rows, "jsonl")
    rows_with_gap = [{**row, "grade": None if i == 1 else "g"} for i, row in enumerate(ROWS)]
    with refused("'age'", "neither text nor whole numbers"):
        load(tmp_path, label="age")
    write(tmp_path, rows_with_gap, "jsonl")
    assert "grade" not in load(tmp_path, label="finding").schema.names
    with refused("'grade'", "no value for", "a.png"):
        load(tmp_path, label="grade")


def test_a_missing_unit_is_named(tmp_path):
    rows = [{**row, "patient": None if i == 2 else "p"} for i, row in enumerate(ROWS)]
    with refused("b.png", "'patient'"):
        load(write(tmp_path, rows, "jsonl"), unit="patient")


def test_text_may_hold_line_separators(tmp_path):
    rows = [{**row, "label": "one\u2028two" if i % 2 else "three"} for i, row in enumerate(ROWS)]
    assert load(write(tmp_path, rows, "jsonl")).schema.classes == ("one\u2028two", "three")
    quoted = 'file_name,label\nz.png,"a\nb"\nb.png,"a\nb"\nc.png,x\nsub/a.png,x\n'
    save(tmp_path / "metadata.csv", quoted.encode())
    (tmp_path / "metadata.jsonl").unlink()
    assert load(tmp_path).schema.classes == ("a\nb", "x")


def test_a_measurement_cannot_be_the_unit(tmp_path):
    rows = [{**row, "weight": 0.5 + i} for i, row in enumerate(ROWS)]
    with refused("'weight'", "cannot be the unit", "whole numbers"):
        load(write(tmp_path, rows, "jsonl"), unit="weight")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param([{"finding": "x", "file_name": "../out.png"}], ("outside",), id="escape"),
        pytest.param([ROWS[0], ROWS[0]], ("twice",), id="repeated row"),
    ],
)
def test_rows_that_point_wrong(tmp_path, rows, words):
    with refused("metadata.jsonl", *words):
        load(write(tmp_path / "set", rows, "jsonl"))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("metadata.csv", "file,label\na.png,x\n", ("row 1", "file_name")),
        ("metadata.jsonl", '{"file_name": "a\\u0000.png", "label": "x"}\n', ("row 1", "NUL byte")),
        ("metadata.csv", "file_name;label\na.png;x\n", ("'file_name;label'", "commas")),
        ("metadata.csv", "file_name,label\na.png\n", ("line 2", "1 cells for 2 columns")),
        ("metadata.csv", "file_name,x,x\na.png,1,2\n", ("a column twice",)),
        ("metadata.csv", "file_name,label\n", ("no rows",)),
        ("metadata.csv", "file_name\ngone.png\n", ("row 1", "gone.png", "not there")),
        ("metadata.jsonl", '{"file_name": "a.png"}\nnonsense\n', ("line 2", "JSON")),
        ("metadata.jsonl", "[1]\n", ("line 1", "JSON object")),
        ("metadata.csv", "file_name,label\n\xff\n", ("UTF-8",)),
    ],
)
def test_bad_metadata_names_the_line(tmp_path, name, text, words):
    save(tmp_path / "a.png", encoded(picture()))
    save(tmp_path / name, text.encode("latin-1"))
    with refused(name, *words):
        load(tmp_path)


def test_an_unlisted_image_is_refused_and_two_tables_too(tmp_path):
    write(tmp_path, ROWS)
    stray = save(tmp_path / "sub" / "stray.png", encoded(picture(7)))
    with refused(str(stray), "not listed"):
        load(tmp_path)
    stray.unlink()
    save(tmp_path / "metadata.jsonl", b"{}")
    with refused("both metadata.csv and metadata.jsonl"):
        load(tmp_path)
