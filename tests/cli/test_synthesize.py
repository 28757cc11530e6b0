"""`understudy synthesize`, from every kind of source to a release that opens anywhere."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from tests import drawing
from tests.workplace import SMALL_GAN, SMALL_MERF, Outcome, Workplace
from understudy.release.load import load_release
from understudy.release.verify import verify

ONE = ("--epsilon", "1")


def test_digits_from_one_command(workplace: Workplace) -> None:
    said = workplace.run("synthesize", "digits", *SMALL_MERF, *ONE, "-o", "out").succeeded().out
    first, *rest = said.splitlines()
    assert first.startswith("Differentially private: epsilon 1.00, delta 1e-05, per image, not")
    assert any(line.startswith("digest") for line in rest)
    assert verify(workplace / "out").ok
    assert sorted(p.name for p in (workplace / "runs").iterdir()) == ["out"]
    assert len(workplace.book("enter")) == len(workplace.book("release")) == 1


def test_json_is_one_object_with_the_claim(workplace: Workplace) -> None:
    said = workplace.run("synthesize", "digits", *SMALL_MERF, *ONE, "-o", "out", "--json").json()
    assert 0.99 <= said["epsilon"] <= 1.0
    assert said["delta"] == 1e-5
    assert said["claim"] == json.loads((workplace / "out/claim.json").read_text())
    assert said["digest"] == verify(workplace / "out").digest
    assert (workplace / said["report"]).is_file()


@pytest.mark.parametrize("small", [SMALL_MERF, (*SMALL_GAN, "--set", "steps=4")])
def test_dry_run_shows_the_plan_and_leaves_no_trace(
    workplace: Workplace, small: tuple[str, ...]
) -> None:
    drawing.class_folder(workplace / "photos")
    before = workplace.tree()
    words = ("synthesize", "photos", *small, *ONE, "--dry-run")
    shown = workplace.run(*words, "--json").succeeded().json()
    assert 0.99 <= shown["epsilon"] <= 1.0
    assert shown["delta"] == 1e-5
    assert shown["plan"]["mechanisms"]
    assert shown["count"] == 40
    said = workplace.run(*words).succeeded().out
    assert "Nothing was spent and nothing was written." in said
    assert workplace.tree() == before
    assert not list(workplace.home.rglob("*")) or workplace.book("enter") == []
    assert not list(workplace.home.rglob("*.split-key"))


def test_a_release_that_nobody_names_has_a_name_that_tells_what_it_is(
    workplace: Workplace,
) -> None:
    said = workplace.run("synthesize", "digits", *SMALL_MERF, *ONE, "--dry-run").succeeded()
    assert "count 1,438; makes 30 records" in said.out
    assert not list(workplace.folder.glob("digits*"))
    workplace.run("synthesize", "digits", *SMALL_MERF, *ONE).succeeded()
    assert load_release(workplace / "digits-dp-merf-epsilon1")[1].method.name == "dp-merf"
    assert (workplace / "runs" / "digits-dp-merf-epsilon1").is_dir()
    again = workplace.run("synthesize", "digits", *SMALL_MERF, *ONE)
    again.refused("digits-dp-merf-epsilon1 exists already")


def test_a_preview_says_how_many_records_are_to_learn_from(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", count=40)
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "0.001", "--dry-run")
    said = workplace.run(*words).succeeded()
    assert "count 40, 34 of them to train; makes 30 records" in said.out
    assert said.out.startswith("epsilon 0.0009") or said.out.startswith("epsilon 0.001 ")


def test_a_folder_of_class_folders(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    said = workplace.run("synthesize", "photos", *SMALL_MERF, *ONE, "-o", "out").succeeded()
    assert said.out.startswith("Differentially private: ")
    assert "per image, not per person." in said.out.splitlines()[0]
    records, claim = load_release(workplace / "out")
    assert records.schema.classes == ("cross", "round")
    assert records.shape == (1, 8, 8)
    assert claim.split == "keyed-hash"


def test_units_of_a_metadata_folder_are_in_the_first_line(workplace: Workplace) -> None:
    drawing.metadata_folder(workplace / "people", count=40, per_person=2)
    words = ("synthesize", "people", *SMALL_MERF, *ONE, "--label", "kind", "--unit", "person")
    said = workplace.run(*words, "-o", "out").succeeded().out
    assert said.splitlines()[0].endswith("per person.")
    claim = load_release(workplace / "out")[1]
    assert claim.unit == "person"
    assert "(20)" in claim.assumed_public[0], "twenty people, not forty images"


def test_without_units_the_same_folder_is_per_image(workplace: Workplace) -> None:
    drawing.metadata_folder(workplace / "people")
    words = ("synthesize", "people", *SMALL_MERF, *ONE, "--label", "kind")
    said = workplace.run(*words, "-o", "out").succeeded().out
    assert said.splitlines()[0].endswith("per image, not per person.")


def test_a_parquet_file_in_colour(workplace: Workplace) -> None:
    drawing.parquet_file(workplace / "photos.parquet")
    said = workplace.run("synthesize", "photos.parquet", *SMALL_MERF, *ONE, "-o", "out")
    assert said.succeeded().out.splitlines()[0].endswith("per image, not per person.")
    records = load_release(workplace / "out")[0]
    assert records.shape == (3, 8, 8)
    assert records.schema.classes == ("no", "yes")


def test_dp_gan_on_a_class_folder(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    words = ("synthesize", "photos", *SMALL_GAN, "--set", "steps=4", *ONE, "-o", "out", "--json")
    claim = workplace.run(*words).succeeded().json()["claim"]
    assert [row["spent"] for row in claim["spending"]] == [4]
    assert claim["epsilon"] <= 1.0


def test_a_release_opens_with_ordinary_tools(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`datasets.load_dataset(release)`: images and labels as they were written."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    drawing.class_folder(workplace / "photos")
    workplace.run("synthesize", "photos", *SMALL_MERF, *ONE, "-o", "out").succeeded()
    opened = datasets.load_dataset(
        str(workplace / "out"), split="train", cache_dir=str(workplace / "cache")
    )
    records = load_release(workplace / "out")[0]
    assert opened.features["label"].names == ["cross", "round"]
    assert opened["label"] == records.labels.tolist()
    for image, pixels in zip(opened["image"], records.features, strict=True):
        assert image.mode == "L"
        assert (np.asarray(image) == pixels[0]).all()


def test_the_same_seed_repeats_everything_but_the_noise(workplace: Workplace) -> None:
    words = ("synthesize", "digits", *SMALL_MERF, *ONE, "--insecure-noise-seed", "5")
    for name in ("a", "b"):
        workplace.run(*words, "-o", name).succeeded()
    first, second = (np.load(workplace / f"runs/{n}/samples/samples.npz") for n in "ab")
    assert (first["features"] == second["features"]).all()
    secret = ("synthesize", "digits", *SMALL_MERF, *ONE)
    for name in ("c", "d"):
        workplace.run(*secret, "-o", name).succeeded()
    third, fourth = (np.load(workplace / f"runs/{n}/samples/samples.npz") for n in "cd")
    assert not (third["features"] == fourth["features"]).all()


def test_a_delta_above_one_over_n_is_warned_about_and_done(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    words = ("synthesize", "photos", *SMALL_MERF, *ONE)
    said: Outcome = workplace.run(*words, "--delta", "0.03", "-o", "out").succeeded()
    assert said.err.startswith("warning: delta 0.03 is above 1/40;")
    assert said.err.endswith("choose at most 0.02.\n")
    assert workplace.run(*words, "--delta", "0.03", "--dry-run").succeeded().err == said.err
    quiet = workplace.run(*words, "--delta", "0.02", "-o", "quiet").succeeded()
    assert quiet.err == ""


def test_the_next_command_can_be_pasted(workplace: Workplace) -> None:
    words = ("synthesize", "digits", *SMALL_MERF, *ONE, "-o", "my stand-in")
    assert "--run 'runs/my stand-in'" in workplace.run(*words).succeeded().out


def test_a_dry_run_refuses_a_device_that_is_not_there(workplace: Workplace) -> None:
    words = ("synthesize", "digits", *SMALL_MERF, *ONE, "--device", "tpu", "--dry-run")
    workplace.run(*words).refused("--device", "cpu")


def test_resuming_a_finished_run_changes_nothing(workplace: Workplace) -> None:
    words = ("synthesize", "digits", *SMALL_MERF, *ONE, "-o", "out", "--json")
    first = workplace.run(*words).json()
    again = workplace.run(*words, "--resume").json()
    assert again["digest"] == first["digest"]
    assert again["claim"] == first["claim"]
    assert len(workplace.book("enter")) == 1


def test_what_was_released_stands_whatever_happens_since(workplace: Workplace) -> None:
    """A run made later is no earlier run: resuming the first one does not reword its claim."""
    words = ("synthesize", "digits", *SMALL_MERF, *ONE, "--json")
    first = workplace.run(*words, "-o", "one").json()
    workplace.run(*words, "-o", "two").succeeded()
    again = workplace.run(*words, "-o", "one", "--resume").json()
    assert (again.pop("composed")["runs"], first.pop("composed")["runs"]) == (2, 1)
    assert again == first
    kept = json.loads((workplace / "runs/one/claim.json").read_text())
    assert kept == json.loads((workplace / "one/claim.json").read_text())


@pytest.mark.data
@pytest.mark.skipif("UNDERSTUDY_DATA" not in os.environ, reason="needs $UNDERSTUDY_DATA")
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_plan_for_raw_files_of_the_catalog(workplace: Workplace, name: str) -> None:
    words = ("synthesize", name, "--method", "dp-merf", *ONE, "--dry-run", "--json")
    words = (*words, "--device-kind", "cpu")
    shown = workplace.run(*words).succeeded().json()
    assert shown["count"] == 60_000
    assert 0.99 <= shown["epsilon"] <= 1.0
    assert workplace.tree() == set()
