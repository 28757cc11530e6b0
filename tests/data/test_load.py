"""What `load` decides: label, classes, units, names, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.data.samples import Said, encoded, picture, refused, save
from understudy.data.load import load
from understudy.data.schema import Attribute, Schema
from understudy.progress import Silent


def annotated(folder: Path, **columns: list[object]) -> Path:
    """A folder of images with these columns."""
    count = len(next(iter(columns.values())))
    rows = []
    for i in range(count):
        save(folder / f"{i}.png", encoded(picture(i)))
        rows.append({"file_name": f"{i}.png", **{k: v[i] for k, v in columns.items()}})
    save(folder / "metadata.jsonl", "\n".join(map(json.dumps, rows)).encode())
    return folder


def test_the_only_attribute_is_the_label(tmp_path):
    assert load(annotated(tmp_path, kind=["a", "b", "a", "b"])).schema.label == "kind"


def test_a_column_called_label_is_the_label(tmp_path):
    folder = annotated(tmp_path, kind=["a", "b", "a", "b"], label=[1, 1, 0, 0])
    assert load(folder).schema.label == "label"
    assert load(folder, label="kind").schema.label == "kind"


def test_several_attributes_and_none_called_label_leave_the_choice_open(tmp_path):
    folder = annotated(tmp_path, kind=["a", "b"], tone=["x", "y"])
    schema = load(folder).schema
    assert schema.label is None
    with refused("--label", "kind", "tone"):
        _ = schema.label_attribute


@pytest.mark.parametrize("cell", ["why", None, 0.5], ids=["text", "empty", "a fraction"])
def test_no_cell_of_another_column_decides_what_the_label_is(tmp_path, cell):
    """An empty cell leaves its column out; the only other column was the label then."""
    folder = annotated(tmp_path, kind=["a", "b"], note=["x", cell])
    assert load(folder).schema.label is None
    assert load(folder, label="kind").schema.label == "kind"


def test_parts_of_different_forms_are_refused(tmp_path):
    for part, size in (("train", (6, 6)), ("test", (7, 6))):
        save(tmp_path / part / "a" / "1.png", encoded(picture(1, size)))
    with refused("train 3x6x6", "test 3x6x7", "--size"):
        load(tmp_path)
    assert load(tmp_path, size=6).shape == (3, 6, 6)


def test_a_column_taken_as_unit_leaves_one_attribute_as_the_label(tmp_path):
    folder = annotated(tmp_path, kind=["a", "b", "a", "b"], who=[1, 1, 2, 2])
    dataset = load(folder, unit="who")
    assert dataset.schema.label == "kind"
    assert dataset.part("all").units.tolist() == ["1", "1", "2", "2"]


@pytest.mark.parametrize("role", ["label", "unit"])
def test_an_attribute_named_but_absent(tmp_path, role):
    folder = annotated(tmp_path, kind=["a", "b", "a", "b"])
    with refused("'knd'", str(folder), "did you mean kind?"):
        load(folder, **{role: "knd"})


def test_class_folders_have_no_unit(class_folder):
    with refused("'patient'", "known: label"):
        load(class_folder, unit="patient")


def test_a_class_with_one_image_is_said_unless_classes_are_declared(tmp_path):
    """A second image of it, which is somebody's, must not decide whether a run goes on."""
    folder = annotated(tmp_path, label=["a", "a", "lone", "b", "b"], other=[1, 2, 3, 4, 5])
    said = Said()
    assert load(folder, progress=said).schema.classes == ("a", "b", "lone")
    [line] = said.lines
    for words in ("'lone'", "single image", "merge", "drop"):
        assert words in line
    assert "'a'" not in line
    silence = Said()
    declared = load(folder, classes=["a", "b", "lone", "nobody"], progress=silence)
    assert silence.lines == []
    assert declared.schema.classes == ("a", "b", "lone", "nobody")
    assert declared.part("all").labels.tolist() == [0, 0, 2, 1, 1]


def test_a_class_with_one_image_in_each_part_is_fine(tmp_path):
    for part in ("train", "test"):
        annotated(tmp_path / part, label=["a", "b"])
    assert {len(part) for part in load(tmp_path).parts.values()} == {2}


def test_classes_that_an_encoder_declares_do_not_depend_on_which_occur(tmp_path):
    declared = Schema((Attribute("kind", ("z", "a", "b")),))
    for number, kinds in enumerate((["a", "a", "b"], ["a", "a", "a"])):
        folder = annotated(tmp_path / str(number), kind=kinds)
        found = load(folder, declared=declared).part("all")
        assert found.schema.attribute("kind").classes == ("z", "a", "b")
        assert found.attributes["kind"].tolist() == [1 + (k == "b") for k in kinds]
    other = annotated(tmp_path / "other", kind=["a", "a", "c", "c"])
    assert load(other, declared=declared).schema.attribute("kind").classes == ("a", "c")


def test_a_class_that_was_not_declared_is_refused(tmp_path):
    folder = annotated(tmp_path, label=["cat", "dog", "dog"])
    with refused("'dog'", "not among the declared classes"):
        load(folder, classes=["cat", "dogs"])


def test_declared_classes_need_a_label(tmp_path):
    folder = annotated(tmp_path, kind=["a", "b"], tone=["x", "y"])
    with refused("classes", "label"):
        load(folder, classes=["a", "b"])


def test_size_and_channels_reach_every_image(class_folder):
    assert load(class_folder, size=4, channels=1).shape == (1, 4, 4)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("mnits", ("'mnits'", "did you mean mnist")),
        ("no/such/folder", ("no/such/folder", "does not exist")),
        ("gone.parquet", ("gone.parquet", "does not exist")),
    ],
)
def test_a_source_that_is_not_there(source, words):
    with refused(*words):
        load(source)


def test_a_file_that_is_no_table(tmp_path):
    with refused("x.csv", ".parquet"):
        load(save(tmp_path / "x.csv", b"a,b"))


def test_a_missing_part_is_named(class_folder):
    dataset = load(class_folder)
    assert dataset.split is None
    with refused("pets", "'train'", "known: all"):
        dataset.part("train")


def test_provenance_does_not_print_the_owners_path(class_folder):
    dataset = load(class_folder)
    assert dataset.provenance == "pets"
    assert dataset.name == "pets"


def test_reading_images_shows_progress(class_folder):
    seen: list[tuple[str, int]] = []

    class Counting(Silent):
        @contextmanager
        def task(self, description, total=None):
            seen.append((description, total))
            with super().task(description, total) as task:
                advance = task.advance
                task.advance = lambda steps=1: (seen.append(("step", steps)), advance(steps))
                yield task

    load(class_folder, progress=Counting())
    assert seen[0] == ("reading images from pets", 4)
    assert seen[1:] == [("step", 1)] * 4


def test_importing_the_room_is_cheap():
    heavy = ("torch", "sklearn", "scipy", "pyarrow", "datasets", "PIL", "yaml")
    code = (
        "import sys, understudy.data, understudy.data.records, understudy.data.schema;"
        f"print([m for m in {heavy!r} if m in sys.modules]);"
        "import understudy.data.load;"
        f"print([m for m in {heavy[:5]!r} if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["[]", "[]"]


def test_public_names_resolve_and_unknown_ones_do_not():
    import understudy.data

    for name in understudy.data.__all__:
        assert callable(getattr(understudy.data, name))
    with pytest.raises(AttributeError):
        _ = understudy.data.nonsense


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("clinik", "did you mean clinic?"),
        ("./clinik", "did you mean clinic?"),
        ("mnits", "did you mean mnist"),
        ("elsewhere/clinik", "give a folder"),
    ],
)
def test_a_folder_of_nearly_that_name_is_suggested(tmp_path, monkeypatch, asked, words):
    (tmp_path / "clinic").mkdir()
    (tmp_path / ".clinik").mkdir()
    monkeypatch.chdir(tmp_path)
    with refused(words):
        load(asked)
