"""Rule 5: who decides in which part a record is."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace
from understudy.data.catalog import catalog
from understudy.data.records import Records
from understudy.progress import Silent
from understudy.run.config import RunConfig
from understudy.run.material import gather

RUN = (*SMALL_MERF, "--epsilon", "1", "-o", "out")


def parts(place: Workplace, source: str = "photos", **more: object) -> dict[str, Records]:
    config = RunConfig(str(place / source), "dp-merf", 1.0, **more)  # type: ignore[arg-type]
    found = gather(config, place.home, Silent())
    assert found.test is not None
    return {"train": found.private, "test": found.test}


def contents(records: Records) -> set[bytes]:
    return {image.tobytes() for image in records.features}


def split_of(place: Workplace) -> str:
    return str(json.loads((place / "out/claim.json").read_text())["split"])


def test_an_owners_folder_is_split_by_a_keyed_hash(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    workplace.run("synthesize", "photos", *RUN).succeeded()
    assert split_of(workplace) == "keyed-hash"


def test_parts_that_the_owner_gave_are_kept(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos/train", seed=1)
    drawing.class_folder(workplace / "photos/test", seed=2)
    workplace.run("synthesize", "photos", *RUN).succeeded()
    assert split_of(workplace) == "given"
    found = parts(workplace)
    assert len(found["train"]) == len(found["test"]) == 40


def test_only_public_data_of_the_catalog_is_stratified(workplace: Workplace) -> None:
    workplace.run("synthesize", "digits", *RUN).succeeded()
    assert split_of(workplace) == "stratified"
    claim = (workplace / "out/claim.json").read_text()
    assert "given the split" in claim
    stratified = [entry for entry in catalog().values() if "stratified" in entry.split]
    assert stratified
    assert all(entry.public for entry in stratified)


def test_a_record_stays_where_it_is_whatever_comes_or_goes(workplace: Workplace) -> None:
    """The key is drawn once and kept with the book: same record, same part, in every run."""
    drawing.class_folder(workplace / "photos", count=60)
    before = parts(workplace)
    shutil.rmtree(workplace / "photos/round")
    drawing.class_folder(workplace / "photos", count=37, classes=("round",), seed=9)
    after = parts(workplace)
    both = contents(before["train"]) | contents(before["test"])
    for name in ("train", "test"):
        assert contents(after[name]) & both == contents(before[name]) & (
            contents(after["train"]) | contents(after["test"])
        )
    assert parts(workplace)["test"].features.tobytes() == after["test"].features.tobytes()


def test_another_book_is_another_key(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", count=60)
    first = contents(parts(workplace)["test"])
    assert contents(parts(workplace, dataset="another name")["test"]) != first


def test_a_column_the_run_does_not_name_decides_nothing(workplace: Workplace) -> None:
    """Whether `eyes` is an attribute hangs on one empty cell; duplicates must not."""
    folder = drawing.metadata_folder(workplace / "people", count=60)
    image = (folder / "0.png").read_bytes()
    (folder / "twin.png").write_bytes(image)
    rows = (folder / "metadata.csv").read_text().splitlines()
    kind = rows[1].split(",")[1]
    rows.append(f"twin.png,{kind},green,person-0")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n")
    full = parts(workplace, "people", label="kind")
    rows[-2] = rows[-2].replace("blue", "").replace("brown", "")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n")
    empty = parts(workplace, "people", label="kind")
    for name in ("train", "test"):
        assert empty[name].features.tobytes() == full[name].features.tobytes()
        assert empty[name].schema == full[name].schema


def test_a_person_is_in_one_part_only(workplace: Workplace) -> None:
    drawing.metadata_folder(workplace / "people", count=60, per_person=3)
    found = parts(workplace, "people", label="kind", unit="person")
    train, test = (set(np.asarray(found[name].units).tolist()) for name in ("train", "test"))
    assert train.isdisjoint(test)
    assert len(train | test) == 20


def test_a_lost_key_is_an_error_and_not_a_new_split(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    workplace.run("synthesize", "photos", *RUN).succeeded()
    for key in workplace.home.rglob("*.split-key"):
        key.unlink()
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "again")
    workplace.run(*words).refused("split key", "restore")
    assert len(workplace.book("enter")) == 1


def test_a_run_does_not_go_on_under_another_book(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    workplace.run("synthesize", "photos", *RUN).succeeded()
    other = ("--home", workplace / "other")
    words = ("synthesize", "photos", *RUN, "--resume")
    workplace.run(*words, *other).refused("does not know the run", "--home")
    workplace.run("evaluate", "--run", "runs/out", *other).refused("does not know the run")
    assert not list((workplace / "other").rglob("*.jsonl"))
    workplace.run(*words).succeeded()


@pytest.mark.parametrize("spoiled", ["x", "", "{}", "- a", "epsilon: [1"])
def test_a_spoiled_config_is_named(workplace: Workplace, spoiled: str) -> None:
    drawing.class_folder(workplace / "photos")
    workplace.run("synthesize", "photos", *RUN).succeeded()
    (workplace / "runs/out/config.yaml").write_text(spoiled)
    workplace.run("synthesize", "photos", *RUN, "--resume").refused("config.yaml")
