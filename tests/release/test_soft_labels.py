"""Soft labels are said wherever a release speaks, and cannot be hidden or made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.release.forge import (
    make_records,
    make_story,
    release_of,
    released_claim,
    restate,
)
from understudy.data.records import Images
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.release.build import summarise
from understudy.release.bundle import ReleaseInfo
from understudy.release.claim import FORMAT_0_1, Claim, RecordsSummary
from understudy.release.load import load_release
from understudy.release.parquet_tables import (
    arrow_schema,
    check_records,
    read_records,
    table_problems,
    write_shards,
)
from understudy.release.verify import verify

SENTENCE = "Labels are soft, a probability for each class instead of one class: digit."
CLASSES = ("zero", "one", "two")
SOFT = np.float32([[0.2, 0.7, 0.1], [0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [0.3, 0.3, 0.4]])


def soft_records() -> Images:
    """Four fixed images whose label itself is soft."""
    pixels = np.arange(4 * 48, dtype=np.uint8).reshape(4, 1, 8, 6)
    return Images(pixels, {"digit": SOFT}, Schema((Attribute("digit", CLASSES),), label="digit"))


@pytest.fixture
def soft(tmp_path: Path) -> ReleaseInfo:
    return release_of(make_story(), soft_records(), tmp_path / "soft")


def test_load_dataset_gives_a_list_of_floats_and_the_names(
    soft: ReleaseInfo, tmp_path: Path
) -> None:
    assert verify(soft.folder, digest=soft.digest).ok
    cache = str(tmp_path / "cache")
    train = datasets.load_dataset(str(soft.folder), split="train", cache_dir=cache)
    assert train[0]["digit"] == SOFT[0].tolist()
    assert np.array_equal(np.float32(train["digit"]), SOFT)
    assert train.features["digit_class"].names == list(CLASSES)
    assert list(train["digit_class"]) == [1, 0, 2, 2]
    back, _ = load_release(soft.folder)
    assert np.array_equal(back.attributes["digit"], SOFT)
    assert back.soft == back.schema.names == ("digit",)


def test_claim_card_and_metadata_say_it(soft: ReleaseInfo) -> None:
    claim = Claim.from_bytes((soft.folder / "claim.json").read_bytes())
    assert claim.records.soft == ("digit",)
    assert SENTENCE in claim.statement
    card = (soft.folder / "README.md").read_text()
    assert f"- {SENTENCE}" in card
    assert "| digit (label), a probability for each class | zero, one, two |" in card
    assert "Labels are soft: digit. The column `NAME_class` beside each holds" in card
    fields = json.loads((soft.folder / "croissant.json").read_text())["recordSet"][-1]["field"]
    kinds = {f["name"]: f["dataType"] for f in fields}
    assert kinds == {"image": "sc:ImageObject", "digit": "sc:Float", "digit_class": "sc:Integer"}


def test_hard_labels_leave_no_word(tmp_path: Path) -> None:
    hard = release_of(make_story(), make_records(), tmp_path / "hard")
    for name in ("claim.json", "README.md", "croissant.json"):
        assert "soft" not in (hard.folder / name).read_text().lower(), name


def test_a_claim_that_keeps_soft_labels_to_itself_does_not_verify(soft: ReleaseInfo) -> None:
    restate(soft.folder, lambda c: replace(c, records=replace(c.records, soft=())))
    assert "columns are not those of the claim's schema" in " ".join(verify(soft.folder).problems)


def test_a_claim_of_soft_labels_that_are_none_does_not_verify(tmp_path: Path) -> None:
    hard = release_of(make_story(), make_records(), tmp_path / "hard")
    restate(hard.folder, lambda c: replace(c, records=replace(c.records, soft=("digit",))))
    assert "columns are not those of the claim's schema" in " ".join(verify(hard.folder).problems)


def test_a_summary_names_the_soft_attributes() -> None:
    assert summarise(soft_records()).soft == ("digit",)
    assert summarise(make_records(soft=True, extra=True)).soft == ("mood",)
    assert summarise(make_records()).soft == ()


@pytest.mark.parametrize("soft", [("other",), ("digit", "digit"), ("mood", "digit")])
def test_soft_names_attributes_in_their_order(soft: tuple[str, ...]) -> None:
    summary = summarise(make_records(soft=True))
    with pytest.raises(UserError, match="soft must name attributes"):
        replace(summary, soft=soft)


def test_a_claim_of_version_0_1_does_not_say_and_its_tables_decide(tmp_path: Path) -> None:
    records = make_records(soft=True)
    claim = replace(released_claim(make_story(), make_records()), format=FORMAT_0_1)
    read = Claim.from_bytes(claim.to_bytes())
    assert read.records.soft is None
    assert read.to_bytes() == claim.to_bytes()
    names = write_shards(records, tmp_path)
    as_then = arrow_schema(records.schema, records.soft, named=False)
    table = pq.read_table(tmp_path / names[0]).drop_columns(["mood_class"]).cast(as_then)
    pq.write_table(table.replace_schema_metadata(as_then.metadata), tmp_path / names[0])
    summary = RecordsSummary(len(records), records.shape, records.schema, None)
    assert not [p for p in table_problems(tmp_path, names, summary) if "columns" in p]
    back = read_records(tmp_path, names, summary)
    assert np.array_equal(back.attributes["mood"], records.attributes["mood"])


def test_a_claim_of_today_that_says_nothing_has_no_soft_labels() -> None:
    claim = released_claim(make_story(), make_records())
    assert b'"soft"' not in claim.to_bytes()
    assert Claim.from_bytes(claim.to_bytes()).records.soft == ()


def test_another_class_than_the_most_probable_is_named(tmp_path: Path) -> None:
    records = soft_records()
    names = write_shards(records, tmp_path)
    table = pq.read_table(tmp_path / names[0])
    position = table.schema.get_field_index("digit_class")
    field = table.schema.field("digit_class")
    turned = table.column("digit_class").combine_chunks().take([1, 0, 2, 3])
    pq.write_table(table.set_column(position, field, turned), tmp_path / names[0])
    problems = " ".join(table_problems(tmp_path, names, summarise(records)))
    assert "'digit_class' is not the most probable class of 'digit'" in problems


def test_a_name_that_the_most_probable_class_needs_is_refused() -> None:
    records = soft_records()
    schema = Schema((Attribute("digit", CLASSES), Attribute("digit_class", ("a",))))
    columns = {"digit": SOFT, "digit_class": np.zeros(4, np.int64)}
    with pytest.raises(UserError, match="named 'digit_class'"):
        check_records(Images(records.features, columns, schema))
