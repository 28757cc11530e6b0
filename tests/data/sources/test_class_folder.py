from __future__ import annotations

import numpy as np

from tests.data.samples import encoded, picture, pixels_of, refused, save
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


def test_empty_folders_are_named(tmp_path, class_folder):
    (class_folder / "bird").mkdir()
    with refused("bird", "no image"):
        load(class_folder)
    (tmp_path / "bare").mkdir()
    with refused("bare", "no images"):
        load(tmp_path / "bare")


def test_a_bad_image_is_named_by_its_path(class_folder):
    bad = save(class_folder / "dog" / "3.png", b"")
    with refused(str(bad), "0 bytes"):
        load(class_folder)
