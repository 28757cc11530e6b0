from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.samples import encoded, picture, pixels_of, refused, save
from understudy.data.load import load

STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def images(count: int, start: int = 0) -> list[bytes]:
    return [encoded(picture(start + i)) for i in range(count)]


def hugging_face(table: pa.Table, **features: object) -> pa.Table:
    stored = {"info": {"features": {"image": {"_type": "Image"}, **features}}}
    return table.replace_schema_metadata({b"huggingface": json.dumps(stored).encode()})


def structs(count: int, start: int = 0) -> pa.Array:
    cells = [{"bytes": data, "path": None} for data in images(count, start)]
    return pa.array(cells, STRUCT)


def write(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize("kind", ["struct", "binary"])
def test_round_trip_of_one_file(tmp_path, kind):
    column = structs(4) if kind == "struct" else pa.array(images(4))
    table = pa.table(
        {
            "picture": column,
            "label": ["b", "a", "b", "a"],
            "flag": [True, False, True, True],
            "who": pa.array(["p", "q", "q", "p"]).dictionary_encode(),
            "weight": [0.1, 0.2, 0.3, 0.4],
        }
    )
    dataset = load(write(tmp_path / "x.parquet", table), unit="who")
    records = dataset.part("all")
    assert records.schema.names == ("label", "flag")
    assert records.schema.classes == ("a", "b")
    assert records.labels.tolist() == [1, 0, 1, 0]
    assert records.schema.attribute("flag").classes == ("false", "true")
    assert records.units is not None
    assert records.units.tolist() == ["p", "q", "q", "p"]
    assert all((records.features[i] == pixels_of(picture(i))).all() for i in range(4))
    assert not dataset.public


def test_a_release_opens_with_its_class_names(tmp_path):
    label = {"_type": "ClassLabel", "names": ["zero", "one", "never seen"]}
    for shard in range(2):
        table = pa.table({"image": structs(2, 2 * shard), "label": pa.array([0, 1], pa.int64())})
        write(
            tmp_path / "data" / f"train-{shard:05d}-of-00002.parquet",
            hugging_face(table, label=label),
        )
    save(tmp_path / "README.md", b"# card")
    save(tmp_path / "claim.json", b"{}")
    dataset = load(tmp_path)
    assert set(dataset.parts) == {"train"}
    assert dataset.schema.classes == ("zero", "one", "never seen")
    records = dataset.part("train")
    assert records.labels.tolist() == [0, 1, 0, 1]
    assert all((records.features[i] == pixels_of(picture(i))).all() for i in range(4))


def test_one_image_of_a_declared_class_is_no_fault(tmp_path):
    label = {"_type": "ClassLabel", "names": ["a", "b"]}
    table = hugging_face(pa.table({"image": structs(3), "label": [0, 0, 1]}), label=label)
    assert load(write(tmp_path / "x.parquet", table)).part("all").labels.tolist() == [0, 0, 1]


def test_a_missing_class_label_is_a_missing_value(tmp_path):
    label = {"_type": "ClassLabel", "names": ["a", "b"]}
    table = hugging_face(pa.table({"image": structs(2), "label": [0, -1]}), label=label)
    with refused("'label'", "no value for", "row 1"):
        load(write(tmp_path / "x.parquet", table))


def test_parts_by_file_name_or_folder(tmp_path):
    for name in ("train-0.parquet", "test/0.parquet"):
        write(tmp_path / name, pa.table({"image": structs(2), "label": [0, 0]}))
    assert set(load(tmp_path).parts) == {"train", "test"}
    write(tmp_path / "extra.parquet", pa.table({"image": structs(2), "label": [0, 0]}))
    with refused("extra.parquet", "named parts"):
        load(tmp_path)


def test_image_paths_are_followed_inside_the_folder_only(tmp_path):
    save(tmp_path / "set" / "one.png", encoded(picture(1)))
    save(tmp_path / "secret.png", encoded(picture(2)))
    inside = pa.array([{"bytes": None, "path": "one.png"}], STRUCT)
    path = write(tmp_path / "set" / "x.parquet", pa.table({"image": inside}))
    assert (load(path).part("all").features[0] == pixels_of(picture(1))).all()
    outside = pa.array([{"bytes": None, "path": "../secret.png"}], STRUCT)
    with refused("row 0", "no image bytes"):
        load(write(path, pa.table({"image": outside})))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"label": [1, 2]}), ("no image column",)),
        (pa.table({"x": images(1), "y": images(1)}), ("x, y", "call the right one 'image'")),
        (pa.table({"image": pa.array([], pa.binary())}), ("no rows",)),
        (pa.table({"image": [b"", encoded(picture())]}), ("row 0", "0 bytes")),
        (pa.table({"image": pa.array([None], STRUCT)}), ("row 0", "no image bytes")),
    ],
)
def test_bad_tables(tmp_path, table, words):
    with refused("x.parquet", *words):
        load(write(tmp_path / "x.parquet", table))


def test_damaged_and_disagreeing_files(tmp_path):
    whole = write(tmp_path / "train-0.parquet", pa.table({"image": structs(3), "label": [0, 0, 0]}))
    write(tmp_path / "train-1.parquet", pa.table({"image": structs(1), "label": ["x"]}))
    with refused("train-1.parquet", "other columns"):
        load(tmp_path)
    whole.write_bytes(whole.read_bytes()[:-50])
    with refused("train-0.parquet", "Parquet"):
        load(whole)
