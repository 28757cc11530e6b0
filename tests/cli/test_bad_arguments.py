"""Bad arguments: refused by name before private records are read."""

from __future__ import annotations

import pytest

from tests import drawing
from tests.run.public_method import TINTED
from tests.workplace import SMALL_GAN, SMALL_MERF, Workplace

RUN = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "out")

BAD_WORDS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("--epsilon", "0"), ("epsilon", "above 0")),
    (("--epsilon", "-1"), ("epsilon", "above 0")),
    (("--epsilon", "nan"), ("epsilon", "nan")),
    (("--epsilon", "inf"), ("epsilon", "finite")),
    (("--delta", "0"), ("delta", "1e-5")),
    (("--delta", "1"), ("delta", "1e-5")),
    (("--delta", "-0.1"), ("delta", "1e-5")),
    (("--delta", "nan"), ("delta", "1e-5")),
    (("--method", "dp-merv"), ("dp-merv", "did you mean dp-merf?")),
    (("--set", "stepz=3"), ("stepz", "did you mean steps?")),
    (("--set", "steps"), ("--set", "key=value")),
    (("--set", "steps=many"), ("steps", "whole number")),
    (("--set", "steps=0"), ("steps", "at least 1")),
    (("--set", "learning_rate=nan"), ("learning_rate",)),
    (("--label", "age"), ("'age'", "label")),
    (("--unit", "person"), ("'person'", "label")),
    (("--unit", "label", "--label", "label"), ("--unit", "--label")),
    (("--count", "0"), ("--count", "between 1 and")),
    (("--count", "1"), ("1", "--count")),
    (("--holdout", "0"), ("--holdout",)),
    (("--holdout", "nan"), ("--holdout",)),
    (("--holdout", "0.99"), ("--holdout",)),
    (("--samples", "0"), ("--samples",)),
    (("--size", "0"), ("size", "4096")),
    (("--channels", "2"), ("channels", "3")),
    (("--device", "tpu"), ("--device", "cpu")),
    (("--device", "meta"), ("--device", "cpu")),
    (("--device", "cuda:99"), ("--device", "cpu")),
    (("--title", "two\nlines"), ("title",)),
    (("--title", "see /ho" + "me/alice/photos"), ("path",)),
    (("--hide", "label"), ("dp-merf hides no attribute", "understudy filter", "leave --hide out")),
    (("--method", "DP_MERF"), ("did you mean dp-merf?",)),
    (("--classes", '"a, b'), ("double quotes",)),
    (("--keep", "label"), ("--keep",)),
    (("--public", "digits"), ("--public",)),
    (("--weights", "taef2"), ("dp-merf", "--weights")),
    (("--method", "pdp-diffusion", "--public", "recods=digits"), ("'recods'", "mean records?")),
    (("--method", "pdp-diffusion"), ("needs public data", "--public DATA")),
    (("--method", TINTED, "--public", "faces=digits"), ("'warm'", "--weights warm=FILE")),
    (("--selected-among", "lr"), ("--selected-by",)),
    (("--selected-by", "eye"), ("--selected-among",)),
    (("--selection-covered",), ("--selected-among",)),
]


@pytest.mark.parametrize(("words", "named"), BAD_WORDS, ids=[" ".join(w) for w, _ in BAD_WORDS])
def test_a_bad_word_is_named_and_nothing_happens(
    workplace: Workplace, words: tuple[str, ...], named: tuple[str, ...]
) -> None:
    drawing.class_folder(workplace / "photos")
    before = workplace.tree()
    workplace.run(*RUN, *words).refused(*named)
    assert workplace.tree() == before
    assert workplace.book("enter") == []


BAD_TIMES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("--time", "soon"), ("--time", "90s, 10m or 2h", "'soon'")),
    (("--time", ""), ("--time", "90s, 10m or 2h")),
    (("--time", "0"), ("--time", "'0'")),
    (("--time", "0.0m"), ("--time", "'0.0m'")),
    (("--time", "nan"), ("--time", "'nan'")),
    (("--time", "1e3"), ("--time", "'1e3'")),
    (("--time", "5 days"), ("--time", "'5 days'")),
    (("--time", "0.5s"), ("--time", "a second or more")),
    (("--time", f"{'9' * 400}h"), ("--time", "finite")),
    (("--device-kind", "h100"), ("--device-kind 'h100'", "did you mean h200?")),
    (("--device-kind", "abacus"), ("--device-kind 'abacus'", "known: ", "cpu", "h200")),
]


@pytest.mark.parametrize(
    ("words", "named"), BAD_TIMES, ids=[" ".join(w)[:30] for w, _ in BAD_TIMES]
)
@pytest.mark.parametrize(
    "command",
    [
        ("synthesize", "photos", "--method", "dp-merf", "--epsilon", "1", "-o", "out"),
        ("synthesize", "photos", "--epsilon", "1", "--dry-run"),
        ("methods", "--for", "photos"),
    ],
    ids=" ".join,
)
def test_a_time_that_is_none_is_named(
    workplace: Workplace, command: tuple[str, ...], words: tuple[str, ...], named: tuple[str, ...]
) -> None:
    drawing.class_folder(workplace / "photos", count=4)
    before = workplace.tree()
    workplace.run(*command, *words).refused(*named)
    assert workplace.tree() == before
    assert workplace.book("enter") == []


def test_settings_are_named_or_fitted(workplace: Workplace) -> None:
    workplace.run(*RUN, "--time", "5m").refused("--time", "--preset", "one of the two")


def test_several_processes_take_presets(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would try settings for itself, and they might come out otherwise."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    words = ("synthesize", "digits", "--method", "dp-merf", "--epsilon", "1", "--dry-run", "--json")
    workplace.run(*words, "--time", "5m").refused("--time", "torchrun", "--preset")
    seen = workplace.run(*words, "--device-kind", "cpu").succeeded().json()
    assert seen["preset"] == "digits"


@pytest.mark.parametrize(
    "words",
    [
        *[("--epsilon", "3"), ("--label", "kind"), ("--unit", "person"), ("--size", "32")],
        *[("--channels", "1"), ("--count", "90"), ("--public", "digits"), ("--time", "5m")],
        *[("--device", "cpu"), ("--device-kind", "cpu")],
    ],
    ids=" ".join,
)
def test_what_advice_alone_would_use_is_refused_without_data(
    workplace: Workplace, words: tuple[str, ...]
) -> None:
    workplace.run("methods", *words).refused(words[0], "--for DATA")
    workplace.run("methods", "dp-merf", *words).refused(words[0], "--for DATA")


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("digitz", ("digitz", "did you mean digits?")),
        ("no/such/folder", ("no/such/folder", "Parquet")),
        ("notes.txt", ("notes.txt", "Parquet")),
        ("empty", ("empty", "class folders")),
        ("hf:", ("hf:",)),
        ("", ("data", "folder")),
        ("~nobody-of-this-name/photos", ("~nobody-of-this-name/photos", "whole path")),
    ],
)
def test_an_unknown_source(workplace: Workplace, source: str, named: tuple[str, ...]) -> None:
    (workplace / "notes.txt").write_text("hello")
    (workplace / "empty").mkdir()
    words = ("synthesize", source, *SMALL_MERF, "--epsilon", "1", "-o", "out")
    workplace.run(*words).refused(*named)
    assert workplace.tree() == {"notes.txt", "empty"}


def test_a_guarantee_needs_an_epsilon(workplace: Workplace) -> None:
    words = ("synthesize", "digits", *SMALL_MERF, "-o", "out")
    workplace.run(*words).refused("--epsilon")


def test_no_label_among_several_attributes(workplace: Workplace) -> None:
    drawing.metadata_folder(workplace / "people")
    words = ("synthesize", "people", *SMALL_MERF, "--epsilon", "1", "--unit", "person")
    workplace.run(*words, "-o", "out").refused("--label", "kind", "eyes")
    assert workplace.book("enter") == []
    assert not (workplace / "runs").exists()


def test_no_column_at_all_is_told_without_an_empty_list(workplace: Workplace) -> None:
    folder = workplace / "people"
    drawing.metadata_folder(folder)
    rows = (folder / "metadata.csv").read_text().splitlines()
    (folder / "metadata.csv").write_text("\n".join(row.split(",")[0] for row in rows) + "\n")
    said = workplace.run("synthesize", "people", *SMALL_MERF, "--epsilon", "1", "-o", "out")
    said.refused("no column that could be the label", "folders named after their class")
    assert ": ." not in said.err


def test_method_names_are_taken_in_any_case(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    words = [word.upper() if word == "dp-merf" else word for word in SMALL_MERF]
    workplace.run("synthesize", "photos", *words, "--epsilon", "1").succeeded()
    assert (workplace / "photos-dp-merf-epsilon1").is_dir()
    assert workplace.run("methods", "Dp-Gan").succeeded().out.startswith("dp-gan:")


def test_a_class_name_with_a_comma_can_be_declared(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", classes=("mild, early", "none"))
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "--dry-run", "--classes")
    workplace.run(*words, '"mild, early",none').succeeded()
    workplace.run(*words, "mild, early,none").refused("not among the declared classes")


@pytest.mark.parametrize("name", ["photos/cat/back", "photos/loop"])
def test_a_folder_that_leads_back_to_itself_is_one_sentence(
    workplace: Workplace, name: str
) -> None:
    drawing.class_folder(workplace / "photos", classes=("cat", "dog"))
    (workplace / name).symlink_to(workplace / "photos")
    workplace.run(*RUN).refused(name, "take the link out")


def test_a_link_to_itself_is_one_sentence(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    (workplace / "round").symlink_to("round")
    workplace.run(*RUN[:-1], "round/out").refused("round")
    workplace.run("synthesize", "round", *RUN[2:]).refused("round")


def test_too_few_records_for_the_plan(workplace: Workplace) -> None:
    """A step of DP-SGD cannot draw more records on average than there are."""
    drawing.class_folder(workplace / "photos", count=20)
    words = ("synthesize", "photos", *SMALL_GAN, "--epsilon", "1", "-o", "out")
    workplace.run(*words, "--set", "batch=18").refused("batch", "too few records", "17")
    assert workplace.book("enter") == []
    assert not (workplace / "runs").exists()


def test_both_ways_of_saying_the_same_count_of_one(workplace: Workplace) -> None:
    drawing.metadata_folder(workplace / "people", count=12, per_person=12)
    words = ("synthesize", "people", *SMALL_MERF, "--epsilon", "1", "--label", "kind")
    workplace.run(*words, "--unit", "person", "-o", "out").refused("count of 1")
    workplace.run(*words, "-o", "out").succeeded()


@pytest.mark.parametrize("column", ["image", "kind"])
def test_names_that_no_release_may_hold(workplace: Workplace, column: str) -> None:
    """Found before the budget is spent: a plan is single-use, and data can be renamed."""
    folder = drawing.metadata_folder(workplace / "people")
    table = (folder / "metadata.csv").read_text().replace("kind", column)
    place = "/ho" + "me/alice/left"
    spoiled = table if column == "image" else table.replace("left", place)
    (folder / "metadata.csv").write_text(spoiled)
    words = ("synthesize", "people", *SMALL_MERF, "--epsilon", "1", "--label", column)
    workplace.run(*words, "-o", "out").refused("'image'" if column == "image" else place)
    assert workplace.book("enter") == []
    assert not (workplace / "runs").exists()


def test_odd_names_are_no_obstacle(workplace: Workplace) -> None:
    classes = ("Ärzte & Co", "a, b = <c>\"'")
    drawing.class_folder(workplace / "meine Bilder", classes=classes)
    words = ("synthesize", "meine Bilder", *SMALL_MERF, "--epsilon", "1", "-o", "für alle")
    workplace.run(*words).succeeded()
    assert workplace.run("verify", "für alle").succeeded().out.startswith("consistent")


@pytest.mark.parametrize("small", [SMALL_MERF, (*SMALL_GAN, "--set", "steps=2")])
def test_images_too_small_for_a_method(workplace: Workplace, small: tuple[str, ...]) -> None:
    drawing.class_folder(workplace / "photos")
    words = ("synthesize", "photos", *small, "--epsilon", "1", "--size", "4", "-o", "out")
    workplace.run(*words).refused("8 to 64", "--size")
    assert workplace.book("enter") == []
