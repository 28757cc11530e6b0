"""Rule 10: whether a private release exists depends on what the owner declares, not on a record.

Two folders that differ in one record are taken as far as the plan, which stands before anything
is spent: both get the same one, or both are refused. What one record can still stop (a file that
is no image, a record without a label) is listed in the claim of the folder without it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests import drawing
from tests.data.samples import Said
from tests.run.public_facts import comparable, public_facts
from tests.workplace import SMALL_GAN, SMALL_MERF, Workplace
from understudy.data.sources import assemble
from understudy.errors import UserError
from understudy.privacy.noise.source import NoiseSource
from understudy.progress import Silent
from understudy.release.facts import RunFacts
from understudy.run.assumed import assumed_public
from understudy.run.config import RECOMMENDED, RunConfig
from understudy.run.prepare import calibrate, form_of, prepare, run_facts

KEY = b"the secret of this dataset"
Write = Callable[[Path], None]


def declared(folder: Path, **more: object) -> RunConfig:
    usual = RunConfig(str(folder), "dp-merf", 1.0, count=40, time=None)
    return replace(usual, **more)  # type: ignore[arg-type]


def outcome(config: RunConfig) -> object:
    """Everything that stands before the first private step: that the run is refused, or the
    plan, the facts that methods get, what was settled by what, and what the ledger states."""
    try:
        prepared = prepare(config, None, Silent(), KEY)
        plan = calibrate(prepared).to_json()
    except UserError:
        return "refused"
    stated = run_facts(prepared, NoiseSource()).to_json()
    settled = replace(prepared.config, source="photos")
    settled_by = form_of(settled, prepared.material)
    facts = [repr(one) for one in (prepared.facts, settled, settled_by)]
    return json.dumps([comparable(plan), facts, stated])


@dataclass(frozen=True)
class Row:
    """One row of a folder with metadata."""

    kind: str
    person: str = "a"
    note: str = "-"


def rows_of(rows: Sequence[Row]) -> Write:
    def write(folder: Path) -> None:
        pixels, _ = drawing.bars(len(rows))
        folder.mkdir(parents=True)
        with (folder / "metadata.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["file_name", "kind", "person", "note"])
            for i, (image, row) in enumerate(zip(pixels, rows, strict=True)):
                (folder / f"{i}.png").write_bytes(drawing.png(image))
                table.writerow([f"{i}.png", row.kind, row.person, row.note])

    return write


def folders_of(**counts: int) -> Write:
    """Class folders with so many images; `part_class` lies in a folder of its part."""

    def write(folder: Path) -> None:
        pixels, _ = drawing.bars(sum(counts.values()))
        left = list(pixels)
        for name, count in counts.items():
            (folder / name.replace("_", "/")).mkdir(parents=True)
            for i in range(count):
                image = drawing.png(left.pop())
                (folder / name.replace("_", "/") / f"{i}.png").write_bytes(image)

    return write


def with_a_copy(write: Write) -> Write:
    def copied(folder: Path) -> None:
        write(folder)
        path = next(iter(sorted(folder.rglob("*.png"))))
        path.with_name("copy.png").write_bytes(path.read_bytes())

    return copied


SOME = [Row("a", "p"), Row("b", "q"), Row("a", "q"), Row("b", "r")]
ROLES = {"label": "kind", "unit": "person", "classes": ("a", "b", "c")}
NEIGHBOURS: dict[str, tuple[Write, Write, dict[str, object]]] = {
    "a class of two images or one": (folders_of(a=2, b=3), folders_of(a=1, b=3), {}),
    "a class of one image or none": (folders_of(a=1, b=3), folders_of(a=0, b=3), {}),
    "a class that was not declared": (
        folders_of(a=1, b=3),
        folders_of(a=0, b=3),
        {"classes": ("b",)},
    ),
    "a declared class that occurs or not": (
        rows_of([*SOME, Row("c")]),
        rows_of(SOME),
        ROLES,
    ),
    "a duplicate": (with_a_copy(folders_of(a=2, b=3)), folders_of(a=2, b=3), {}),
    "a person with two images or one": (rows_of([*SOME, Row("a", "p")]), rows_of(SOME), ROLES),
    "a person who is there or not": (rows_of([*SOME, Row("a", "new")]), rows_of(SOME), ROLES),
    "another column with an empty cell": (
        rows_of([*SOME, Row("a", note="")]),
        rows_of(SOME),
        {"unit": "person"},
    ),
    "another column with too many values": (
        rows_of([*SOME, Row("a", note="w"), Row("a", note="x"), Row("b", note="y")]),
        rows_of([*SOME, Row("a", note="w"), Row("a", note="x")]),
        {"unit": "person"},
    ),
    "a class of the test part": (
        folders_of(train_a=2, train_b=2, test_a=1, test_b=1),
        folders_of(train_a=2, train_b=2, test_a=1, test_b=0),
        {},
    ),
    "a class of the training part": (
        folders_of(train_a=1, train_b=2, test_a=1, test_b=1),
        folders_of(train_a=0, train_b=2, test_a=1, test_b=1),
        {},
    ),
    "all records but one": (folders_of(a=1, b=1), folders_of(a=1, b=0), {}),
}


REFUSED_BOTH = {
    "a class that was not declared",
    "another column with an empty cell",
    "another column with too many values",
}
"""For a name: of a folder, or for want of a label's among several columns."""


CHOOSING: dict[str, object] = {"method": RECOMMENDED, "time": 20.0, "device_kind": "cpu"}
"""Method and settings are left open; rates answer, which are the same at every call."""


@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_one_record_chooses_neither_method_nor_settings(
    tmp_path: Path, pair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = outcomes(tmp_path, pair, monkeypatch, CHOOSING)
    assert first == second, "one record decides how the run goes"
    assert (first == "refused") == (pair in REFUSED_BOTH)


@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_one_record_decides_neither_that_there_is_a_run_nor_what_it_follows(
    tmp_path: Path, pair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = outcomes(tmp_path, pair, monkeypatch, {})
    assert first == second, "one record decides what becomes of the run"
    assert (first == "refused") == (pair in REFUSED_BOTH)


def outcomes(
    tmp_path: Path, pair: str, monkeypatch: pytest.MonkeyPatch, given: dict[str, object]
) -> list[object]:
    """Of both folders of a pair, with what the pair and the test give."""
    monkeypatch.setattr(assemble, "MOST_CLASSES", 3)
    more, less, options = NEIGHBOURS[pair]
    found = []
    for name, write in (("more", more), ("less", less)):
        folder = tmp_path / name / "photos"
        write(folder)
        found.append(outcome(declared(folder, **given, **options)))
    return found


# What one record can stop is listed


def stray(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        folders_of(a=2, b=2)(folder)
        (folder / "b" / name).write_bytes(content)

    return write


WIDE = drawing.png(drawing.bars(1)[0][0][:, :, :5])
COLOUR = drawing.png(drawing.bars(1, channels=3)[0][0])
STOPPED: dict[str, tuple[Write, Write, dict[str, object], str]] = {
    "no image": (
        stray("bad.png", b"this is no picture"),
        folders_of(a=2, b=2),
        {},
        "each image can be read",
    ),
    "another size": (stray("5.png", WIDE), folders_of(a=2, b=2), {}, "all images are of one size"),
    "another kind": (stray("5.png", COLOUR), folders_of(a=2, b=2), {}, "grey or in colour"),
    "no label": (
        rows_of([*SOME, Row("")]),
        rows_of(SOME),
        {"label": "kind"},
        "has a class",
    ),
    "no person": (
        rows_of([*SOME, Row("a", person="")]),
        rows_of(SOME),
        ROLES,
        "names its 'person'",
    ),
    "an undeclared class": (
        rows_of([*SOME, Row("other")]),
        rows_of(SOME),
        ROLES,
        "one of the classes that were declared",
    ),
    "a part without an image": (
        folders_of(train_a=2, test_a=0),
        folders_of(train_a=2, test_a=1),
        {},
        "every part of the data holds an image",
    ),
}


def stated(config: RunConfig) -> RunFacts:
    return run_facts(prepare(config, None, Silent(), KEY), NoiseSource())


@pytest.mark.parametrize("what", STOPPED)
def test_what_one_record_stops_is_assumed_public(tmp_path: Path, what: str) -> None:
    refused, taken, options, words = STOPPED[what]
    refused(tmp_path / "refused")
    taken(tmp_path / "taken")
    assert outcome(declared(tmp_path / "refused", **options)) == "refused"
    assumed = stated(declared(tmp_path / "taken", **options)).assumed_public
    assert any(words in item for item in assumed), f"the claim is silent on it: {assumed}"


def test_what_the_owner_declares_is_not_assumed_and_cannot_be_stopped(tmp_path: Path) -> None:
    whole = {"size": 8, "channels": 1, "classes": ("a", "b"), "label": "label"}
    for name, content in (("wide", WIDE), ("colour", COLOUR)):
        stray("5.png", content)(tmp_path / name)
        assert outcome(declared(tmp_path / name, **whole)) != "refused"
    assert stated(declared(tmp_path / "wide", **whole)).assumed_public == (
        "that every part of the data holds an image",
        "that each image can be read and has one of the classes that were declared",
    )


def test_all_that_is_read_off_is_listed_and_of_published_data_only_the_count(
    tmp_path: Path,
) -> None:
    folders_of(a=2, b=2)(tmp_path / "photos")
    assert stated(declared(tmp_path / "photos", count=None, holdout=0.1)).assumed_public == (
        "that the declared count is the true one",
        "that every part of the data holds an image",
        "that each image can be read and has a class",
        "that all images are of one size",
        "whether images are grey or in colour",
        "which classes occur",
        "which columns the data have",
    )
    assert stated(RunConfig("digits", "dp-merf", 1.0, count=1438, time=None)).assumed_public == ()


def test_a_local_release_shows_how_many_records_there_are(tmp_path: Path) -> None:
    """Replacing a record can move it to another part, and each one leaves as a row."""
    folders_of(a=2, b=2)(tmp_path / "photos")
    config = declared(tmp_path / "photos")
    dataset = prepare(config, None, Silent(), KEY).material.dataset
    listed = set(assumed_public(config, dataset, "local"))
    assert listed - set(assumed_public(config, dataset, "central")) == {
        "how many records the method was given"
    }


# Releases of nobody


NOBODY = ("--count", "1000000000", "--holdout", "0.9999999", "--epsilon", "1", "--title", "Of whom")
"""A hundred of a thousand million are declared to learn from; of three records none is."""
METHODS = {
    "one sum": SMALL_MERF,
    "DP-SGD": (*SMALL_GAN, "--set", "steps=2"),
    "DP-SGD on people": (*SMALL_GAN, "--set", "steps=2", "--unit", "person", "--label", "kind"),
}


@pytest.mark.parametrize("method", METHODS)
def test_records_that_all_fall_into_one_part_are_said_and_released(
    workplace: Workplace, method: str
) -> None:
    rows_of(SOME[:3])(workplace / "few")
    rows_of(SOME[:2])(workplace / "fewer")
    words = (*METHODS[method], *NOBODY)
    roles = () if "--label" in words else ("--label", "kind")
    for name in ("few", "fewer"):
        done = workplace.run("synthesize", name, *words, *roles, "-o", f"of-{name}").succeeded()
        assert f"no record fell into the train part of {name}" in done.err
        workplace.run("verify", f"of-{name}").succeeded()
    assert public_facts(workplace, "of-few") == public_facts(workplace, "of-fewer")


def test_an_empty_test_part_is_said_and_nothing_else(tmp_path: Path) -> None:
    folders_of(a=2, b=1)(tmp_path / "photos")
    said = Said()
    config = declared(tmp_path / "photos", holdout=1e-9)
    prepared = prepare(config, None, said, KEY)
    assert prepared.material.test is not None
    assert len(prepared.material.test) == 0
    assert "warning: no record fell into the test part of photos." in said.lines
