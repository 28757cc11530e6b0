from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.report.examples import digit_samples, noise_samples
from understudy.data.records import Images, Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.report.grid import MOST_PNG_BYTES, sheet


def _pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG"
        return np.asarray(image)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("height", "width"), [(8, 8), (20, 12), (5, 31)])
def test_pixels_come_through_untouched(channels: int, height: int, width: int) -> None:
    samples = noise_samples(4, 3, channels, height, width)
    laid = sheet(samples)
    pixels = _pixels(laid.png)
    assert pixels.shape == (laid.height, laid.width, channels + 1)
    gap = (laid.width - 3 * width) // 2
    for c, strip in enumerate(laid.strips):
        for k in range(3):
            x = k * (width + gap)
            cell = pixels[strip.top : strip.top + height, x : x + width]
            np.testing.assert_array_equal(
                np.moveaxis(cell[..., :channels], -1, 0), samples.features[c * 3 + k]
            )
            assert (cell[..., -1] == 255).all()


def test_gaps_are_transparent() -> None:
    laid = sheet(noise_samples(2, 2, 1, 8, 8))
    alpha = _pixels(laid.png)[..., -1]
    assert (alpha[8:9] == 0).all()
    assert (alpha[:, 8:9] == 0).all()


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_one_row_a_class(classes: int) -> None:
    laid = sheet(noise_samples(classes, 2, 1, 8, 8))
    assert len(laid.strips) == classes
    assert laid.height == laid.strips[-1].top + laid.row_height


def test_no_more_pictures_than_columns() -> None:
    laid = sheet(digit_samples(per_class=20))
    assert laid.columns == 8
    assert {strip.count for strip in laid.strips} == {8}


def test_a_class_without_samples_keeps_its_row() -> None:
    samples = digit_samples()
    laid = sheet(samples.select(samples.labels != 3))
    assert laid.strips[3].count == 0
    assert len(laid.strips) == 10


def test_without_a_label_all_samples_share_a_row() -> None:
    samples = digit_samples()
    laid = sheet(samples.with_schema(replace(samples.schema, label=None)))
    assert [strip.name for strip in laid.strips] == ["all"]


def test_pictures_too_many_for_a_report_are_fewer_and_then_smaller() -> None:
    laid = sheet(noise_samples(100, 8, 3, 64, 64))
    assert len(laid.png) <= MOST_PNG_BYTES
    assert laid.shrunk > 1
    assert len(laid.strips) == 100


def test_one_large_picture_is_shown_whole() -> None:
    laid = sheet(noise_samples(2, 1, 1, 512, 256))
    assert laid.row_height == 512 // laid.shrunk
    assert laid.wide == laid.narrow == 1
    assert not laid.outgrows_page
    assert sheet(noise_samples(2, 8, 1, 16, 120)).outgrows_page


def test_small_pictures_are_enlarged_by_whole_numbers_that_fit_a_phone() -> None:
    laid = sheet(digit_samples())
    assert laid.wide == 8
    assert laid.narrow * laid.width <= 300


def test_soft_labels_count_by_their_most_probable_class() -> None:
    schema = Schema((Attribute("kind", ("a", "b")),), label="kind")
    soft = np.array([[0.9, 0.1], [0.2, 0.8]], dtype=np.float32)
    records = Images(np.zeros((2, 1, 4, 4), dtype=np.uint8), {"kind": soft}, schema)
    assert [strip.count for strip in sheet(records).strips] == [1, 1]


def test_what_cannot_be_drawn_is_refused() -> None:
    schema = Schema((Attribute("kind", ("a",)),), label="kind")
    table = Records(np.zeros((1, 4), dtype=np.float32), {"kind": np.zeros(1, dtype=int)}, schema)
    with pytest.raises(UserError, match="must be grey or colour images"):
        sheet(table)
    with pytest.raises(UserError, match="samples are empty"):
        sheet(digit_samples().select(np.zeros(80, dtype=bool)))
