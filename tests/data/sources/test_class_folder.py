from __future__ import annotations

import numpy as np

from tests.data.samples import Said, encoded, picture, pixels_of, refused, save
from understudy.data.images import Reading
from understudy.data.load import load
from understudy.data.sources.class_folder import load_class_folder


def test_round_trip_with_classes_and_files_by_name(class_folder):
    records = load(class_folder).part("all")
    assert records.schema.label == "label"
    assert records.schema.classes == ("cat", "dog")
    assert records.labels.tolist() == [0, 0, 1, 1]
    # Written as dog/2, dog/1, cat/b; cat/a is a JPEG and lossy.
    for position, value in ((1, 2), (2, 1), (3, 0)):
        assert (records.features[position] == pixels_of(picture(value))).all()


def test_train_and_test_folders_are_parts_with_one_schema(tmp_path):
    for part, classes in (("train", "ab"), ("test", "bc")):
        for name in classes:
            for i in range(2):
                save(tmp_path / part / name / f"{i}.png", encoded(picture(i)))
    dataset = load(tmp_path)
    assert set(dataset.parts) == {"train", "test"}
    assert dataset.schema.classes == ("a", "b", "c")
    assert dataset.part("train").labels.tolist() == [0, 0, 1, 1]
    assert dataset.part("test").labels.tolist() == [1, 1, 2, 2]


def test_a_class_called_test_is_no_part(tmp_path):
    for name in ("control", "test"):
        for i in range(2):
            save(tmp_path / name / f"{i}.png", encoded(picture(i)))
    assert load(tmp_path).part("all").schema.classes == ("control", "test")


def test_images_at_any_depth_below_a_class(tmp_path):
    save(tmp_path / "a" / "left" / "1.png", encoded(picture(1)))
    save(tmp_path / "a" / "2.png", encoded(picture(2)))
    raw = load_class_folder(tmp_path, Reading())["all"]
    assert raw.columns["label"].values == ["a", "a"]
    assert np.array_equal(raw.pixels[1], pixels_of(picture(1)))


def test_nothing_is_skipped_in_silence(class_folder):
    stray = save(class_folder / "cat" / "notes.txt", b"meow")
    with refused(str(stray), "not an image file"):
        load(class_folder)
    stray.unlink()
    stray = save(class_folder / "lost.png", encoded(picture(9)))
    with refused(str(stray), "outside any class folder"):
        load(class_folder)


def test_an_empty_class_folder_is_a_class(class_folder):
    """Its one image, if it came, would change no name and nobody's code."""
    (class_folder / "bird").mkdir()
    said = Said()
    before = load(class_folder, progress=said)
    assert before.schema.classes == ("bird", "cat", "dog")
    assert before.part("all").labels.tolist() == [1, 1, 2, 2]
    assert any("'bird'" in line and "no image" in line for line in said.lines)
    save(class_folder / "bird" / "1.png", encoded(picture(7)))
    after = load(class_folder)
    assert after.schema == before.schema
    assert after.part("all").labels.tolist() == [0, 1, 1, 2, 2]


def test_an_empty_folder_of_an_undeclared_class_is_refused_as_a_full_one_is(class_folder):
    (class_folder / "bird").mkdir()
    for _ in ("empty", "with an image"):
        with refused("'bird'", "not among the declared classes"):
            load(class_folder, classes=["cat", "dog"])
        save(class_folder / "bird" / "1.png", encoded(picture(7)))


def test_a_class_that_is_empty_in_one_part_is_one_class_of_all_parts(tmp_path):
    for part in ("train", "test"):
        for name in "ab":
            (tmp_path / part / name).mkdir(parents=True)
        save(tmp_path / part / "b" / "1.png", encoded(picture(1)))
    assert load(tmp_path).schema.classes == ("a", "b")


def test_folders_without_any_image_are_named(tmp_path):
    (tmp_path / "bare").mkdir()
    with refused("bare", "no images"):
        load(tmp_path / "bare")
    (tmp_path / "bare" / "cat").mkdir()
    with refused("bare", "no image"):
        load(tmp_path / "bare")


def test_a_bad_image_is_named_by_its_path(class_folder):
    bad = save(class_folder / "dog" / "3.png", b"")
    with refused(str(bad), "0 bytes"):
        load(class_folder)
