"""Folder rules of the gate: each passes a clean folder and finds its planted fault."""

import base64
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.release.forge import edit_json
from understudy.data.schema import Attribute, Schema
from understudy.release.bundle import ReleaseInfo
from understudy.release.claim import Claim
from understudy.release.leaks import folder_refusals, machine_paths, owner_only_keys


def refusals(info: ReleaseInfo) -> str:
    claim = Claim.from_bytes(PRISTINE[info.digest])
    return " ".join(folder_refusals(info.folder, claim))


PRISTINE: dict[str, bytes] = {}


@pytest.fixture(autouse=True)
def _remember(plain: ReleaseInfo) -> None:
    """The claim as it was before a test spoils the folder."""
    PRISTINE[plain.digest] = (plain.folder / "claim.json").read_bytes()


def test_clean_folder_passes(plain: ReleaseInfo) -> None:
    assert refusals(plain) == ""


@pytest.mark.parametrize(
    "name", ["metrics.json", "report.html", "data/.cache", "model.safetensors"]
)
def test_unknown_files(plain: ReleaseInfo, name: str) -> None:
    (plain.folder / name).write_text("{}")
    assert f"{name} does not belong in a release." in refusals(plain)


@pytest.mark.parametrize("name", ["README.md", "data/train-00000-of-00001.parquet"])
def test_pickles_under_any_name(plain: ReleaseInfo, name: str) -> None:
    (plain.folder / name).write_bytes(pickle.dumps({"a": 1}))
    assert f"{name} may hold a pickle" in refusals(plain)
    (plain.folder / name).write_bytes(b"PK\x03\x04archive/data.pkl")
    assert f"{name} may hold a pickle" in refusals(plain)


def test_pickles_inside_other_files(plain: ReleaseInfo) -> None:
    """Between the pages of a table, where no column points, and as text in a claim."""
    shard = plain.folder / plain.shards[0]
    hidden = pickle.dumps({"train": Path("x")})
    data = shard.read_bytes()
    shard.write_bytes(data[:4] + hidden + data[4:])
    assert f"{plain.shards[0]} may hold a pickle" in refusals(plain)
    shard.write_bytes(data)
    text = base64.b64encode(hidden).decode()
    edit_json(plain.folder / "claim.json", lambda d: d["method"]["config"].update(state=text))
    assert "claim.json holds a pickle in base 64." in refusals(plain)


def test_counts_bounds_and_rows_in_a_claim(plain: ReleaseInfo) -> None:
    planted = {
        "class_counts": {"zero": 501, "one": 499},
        "data_max": 254,
        "quantiles": [0.1, 0.9],
        "train_indices": [3, 1, 4],
        "row_ids": ["r-17"],
    }
    edit_json(plain.folder / "claim.json", lambda d: d["method"]["config"].update(planted))
    found = refusals(plain)
    for key in planted:
        assert f"claim.json holds the owner-only key {key!r}." in found


@pytest.mark.parametrize("name", ["patient_id", "Row-Index", "file name", "digit"])
def test_columns_that_tell_people_apart(plain: ReleaseInfo, name: str) -> None:
    """`digit` is the unit of this claim; the others give themselves away."""
    claim = Claim.from_bytes(PRISTINE[plain.digest])
    schema = Schema((Attribute(name, ("a", "b")),), label=name)
    renamed = replace(claim, records=replace(claim.records, schema=schema, soft=()), unit="digit")
    found = " ".join(folder_refusals(plain.folder, renamed))
    assert f"the column {name!r} tells records or people apart." in found


def test_index_column_of_a_data_frame(plain: ReleaseInfo) -> None:
    path = plain.folder / plain.shards[0]
    table = pq.read_table(path)
    rows = pa.array(range(1000, 1000 + len(table)))
    pq.write_table(table.append_column("__index_level_0__", rows), path)
    assert "columns are not those of the claim's schema" in refusals(plain)


def test_paths_of_the_machine_in_json_and_card(plain: ReleaseInfo) -> None:
    place = "/home/ann/hospital/images"
    edit_json(plain.folder / "claim.json", lambda d: d["method"]["config"].update(data=place))
    assert f"claim.json holds a path of the owner's machine: '{place}'" in refusals(plain)
    with (plain.folder / "README.md").open("a") as card:
        card.write(f"\nMade from {place}.\n")
    assert "README.md holds a path of the owner's machine: '/home/ann'" in refusals(plain)


def test_owner_only_keys_in_claim_ledger_and_metadata(plain: ReleaseInfo) -> None:
    ledger = plain.folder / "ledger.jsonl"
    lines = [json.loads(line) for line in ledger.read_bytes().splitlines()]
    lines[1]["body"]["clip_fraction"] = 0.25
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
    edit_json(plain.folder / "croissant.json", lambda d: d.update(hostname="ward-7"))
    found = refusals(plain)
    assert "ledger.jsonl holds the owner-only key 'clip_fraction'" in found
    assert "croissant.json holds the owner-only key 'hostname'" in found


def with_exif(image: dict[str, bytes]) -> dict[str, bytes | None]:
    exif = Image.Exif()
    exif[0x010F] = "camera of ward 7"
    sink = io.BytesIO()
    Image.open(io.BytesIO(image["bytes"])).save(sink, "PNG", exif=exif)
    return {"bytes": sink.getvalue(), "path": None}


def rewrite_images(path: Path, change: Callable[[dict[str, bytes]], object]) -> None:
    table = pq.read_table(path)
    images = table.column("image").to_pylist()
    images[-1] = change(images[-1])
    field = table.schema.field("image")
    pq.write_table(table.set_column(0, field, pa.array(images, field.type)), path)


def test_exif_in_one_image(plain: ReleaseInfo) -> None:
    path = plain.folder / plain.shards[0]
    rewrite_images(path, lambda image: image)
    assert refusals(plain) == ""
    rewrite_images(path, with_exif)
    assert "carries metadata (PNG chunk 'eXIf')" in refusals(plain)


def test_column_beyond_the_schema(plain: ReleaseInfo) -> None:
    path = plain.folder / plain.shards[0]
    table = pq.read_table(path)
    pq.write_table(table.append_column("patient", pa.array(["ann"] * len(table))), path)
    assert "columns are not those of the claim's schema" in refusals(plain)


def test_links(plain: ReleaseInfo, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    (plain.folder / "signature.json").symlink_to(secret)
    assert "signature.json is not a plain file." in refusals(plain)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"loss": "hinge"}, []),
        ({"loss": 0.7}, ["loss"]),
        ({"a": [{"losses": [[0.1]]}]}, ["losses"]),
        ({"Gradient-Norm": {"x": 1}}, ["Gradient-Norm"]),
        ({"split_key": "abc"}, ["split_key"]),
        ({"seconds": True, "batch_size": 64, "count": 3}, []),
    ],
)
def test_settings_are_told_from_measurements(value: object, found: list[str]) -> None:
    assert owner_only_keys(value) == found


@pytest.mark.parametrize(
    ("text", "is_path"),
    [
        ("/data/mnist", True),
        ("/data", True),
        ("~/data", True),
        ("C:\\data\\x", True),
        ("d:/data", True),
        ("file:///etc", True),
        ("\\\\server\\share", True),
        ("read from /srv/x/y today", True),
        ("https://arxiv.org/abs/2006.12101", False),
        ("data/train-*.parquet", False),
        ("and/or", False),
        ("1/2", False),
        ("~1/2", False),
        ("~ann/data", True),
        ("T-shirt/top", False),
        ("gs://bucket/x", False),
        ("application/x-parquet", False),
        ("/", False),
        ("hf:owner/name", False),
    ],
)
def test_paths_are_told_from_words(text: str, is_path: bool) -> None:
    assert bool(machine_paths({"a": [text]})) == is_path
    assert bool(machine_paths({text: 1})) == is_path
