import json
from collections.abc import Callable
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.release.forge import make_records, make_story, release_of
from understudy.data.records import Images, Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.release.build import summarise
from understudy.release.parquet_tables import (
    arrow_schema,
    check_records,
    read_records,
    table_problems,
    write_shards,
)


def same(one: Records, other: Records) -> bool:
    return np.array_equal(one.features, other.features) and all(
        np.array_equal(one.attributes[n], other.attributes[n]) for n in one.schema.names
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_load_dataset_opens_a_release(tmp_path: Path, channels: int) -> None:
    records = make_records(channels=channels, soft=True, extra=True)
    release_of(make_story(), records, tmp_path / "release")
    found = datasets.load_dataset(str(tmp_path / "release"), cache_dir=str(tmp_path / "cache"))
    train = found["train"]
    assert list(found) == ["train"]
    assert isinstance(train.features["image"], datasets.Image)
    assert train.features["digit"].names == ["zero", "one", "two"]
    assert train.features["hand"].names == ["left", "right"]
    pixels = np.stack([np.asarray(image) for image in train["image"]])
    pixels = pixels[:, None] if channels == 1 else pixels.transpose(0, 3, 1, 2)
    assert pixels.tobytes() == records.features.tobytes()
    assert np.array_equal(train["digit"], records.attributes["digit"])
    assert np.array_equal(train["hand"], records.attributes["hand"])
    assert np.array_equal(np.float32(train["mood"]), records.attributes["mood"])


def test_many_shards_hold_the_same_records(tmp_path: Path) -> None:
    records = make_records(count=2500, soft=True)
    names = write_shards(records, tmp_path, shard_bytes=1)
    assert names == [f"data/train-0000{i}-of-00003.parquet" for i in range(3)]
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == [n[5:] for n in names]
    assert same(read_records(tmp_path, names, summarise(records)), records)
    assert table_problems(tmp_path, names, summarise(records)) == []


def test_tables_repeat_byte_for_byte_and_leave_units_out(tmp_path: Path) -> None:
    records = make_records()
    with_units = Images(
        records.features, records.attributes, records.schema, np.array(["ann"] * len(records))
    )
    for name, some in (("a", records), ("b", with_units)):
        (tmp_path / name).mkdir()
        write_shards(some, tmp_path / name)
    one, other = (
        (tmp_path / n / "data/train-00000-of-00001.parquet").read_bytes() for n in ("a", "b")
    )
    assert one == other
    assert b"ann" not in one


def test_what_a_release_cannot_hold_is_refused() -> None:
    records = make_records()
    clash = Schema((Attribute("image", ("a", "b", "c")),))
    with pytest.raises(UserError, match="named 'image'"):
        check_records(Images(records.features, {"image": records.attributes["digit"]}, clash))
    with pytest.raises(UserError, match="no records"):
        check_records(records.select(np.array([], dtype=int)))
    with pytest.raises(UserError, match="must be a uint8 array"):
        check_records(Records(np.zeros((3, 4), np.float32), {}, Schema(())))


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def with_first(column: str, value: object) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_pylist()
        values[0] = value
        position = table.schema.get_field_index(column)
        field = table.schema.field(column)
        return table.set_column(position, field, pa.array(values, field.type))

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.slice(1), "the tables hold 23"),
        (lambda t: t.append_column("age", pa.array(range(len(t)))), "columns are not those"),
        (lambda t: t.drop_columns(["hand"]), "columns are not those"),
        (lambda t: t.replace_schema_metadata({}), "columns are not those"),
        (
            lambda t: t.replace_schema_metadata({**t.schema.metadata, b"who": b"me"}),
            "columns are not those",
        ),
        (with_first("digit", 3), "codes outside"),
        (with_first("digit", None), "empty values"),
        (with_first("mood", [0.5, 0.5]), "4 probabilities a row"),
        (with_first("mood", [-1.0, 1.0, 1.0, 0.0]), "not negative, that add up to 1"),
        (with_first("mood", [0.9, 0.9, 0.0, 0.0]), "not negative, that add up to 1"),
        (with_first("mood", [float("nan"), 1.0, 0.0, 0.0]), "not negative, that add up to 1"),
        (with_first("image", {"bytes": b"GIF", "path": None}), "not a PNG"),
        (with_first("image", None), "not a PNG"),
    ],
)
def test_tables_that_differ_from_the_claim_are_named(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    records = make_records(soft=True, extra=True)
    summary = summarise(records)
    names = write_shards(records, tmp_path)
    assert table_problems(tmp_path, names, summary) == []
    rewrite(tmp_path / names[0], change)
    assert words in " ".join(table_problems(tmp_path, names, summary))
    with pytest.raises(UserError):
        read_records(tmp_path, names, summary)


def test_file_names_inside_images_are_named(tmp_path: Path) -> None:
    records = make_records()
    names = write_shards(records, tmp_path)
    image = pq.read_table(tmp_path / names[0]).column("image")[0].as_py()
    rewrite(tmp_path / names[0], with_first("image", {**image, "path": "patient-7.png"}))
    assert "carries a file name" in " ".join(table_problems(tmp_path, names, summarise(records)))


def test_what_is_not_parquet_is_named(tmp_path: Path) -> None:
    records = make_records()
    names = write_shards(records, tmp_path)
    (tmp_path / names[0]).write_bytes(b"not parquet")
    assert "cannot be read as Parquet" in table_problems(tmp_path, names, summarise(records))[0]


def test_class_names_reach_the_schema() -> None:
    metadata = arrow_schema(make_records().schema, set()).metadata[b"huggingface"]
    assert json.loads(metadata)["info"]["features"]["digit"]["names"] == ["zero", "one", "two"]
