"""A contact sheet shows the first pictures of each class, pixel by pixel."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from understudy.data.contact_sheet import (
    MOST_COLUMNS,
    beside,
    contact_sheet,
    rows_of,
    sheet_of,
    to_html,
    to_png,
)
from understudy.data.records import Images, Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError

WORDS = 13


def images(
    count: int, side: int = 16, channels: int = 1, names: tuple[str, ...] = ("a", "b")
) -> Images:
    random = np.random.default_rng(3)
    pixels = random.integers(0, 255, (count, channels, side, side), np.uint8)
    schema = Schema((Attribute("label", names),), label="label")
    return Images(pixels, {"label": np.arange(count) % len(names)}, schema)


def test_each_class_has_a_row_with_its_first_pictures_and_its_name() -> None:
    records = images(30)
    sheet = sheet_of(records)
    for row, code in enumerate((0, 1)):
        own = np.asarray(records.features)[records.labels == code]
        for column in range(MOST_COLUMNS):
            top, left = row * (WORDS + 34) + WORDS, column * 34
            cell = sheet[:, top : top + 32, left : left + 32]
            assert (cell[:, ::2, ::2] == own[column]).all()
    assert (sheet[:, :WORDS] == 0).any(), "no name is written"
    assert sheet.shape == (1, 2 * (WORDS + 34), MOST_COLUMNS * 34)


def test_it_follows_from_the_records_alone_however_they_are_read() -> None:
    records = images(60, channels=3)
    portions = [records.select(range(start, start + 7)) for start in range(0, 56, 7)]
    found = contact_sheet(rows_of(portions, records.schema, records.shape))
    assert (found == sheet_of(records)).all()
    picture = Image.open(io.BytesIO(to_png(found)))
    assert (np.asarray(picture).transpose(2, 0, 1) == found).all()
    assert picture.info == {}


def test_no_more_is_read_than_is_shown() -> None:
    def portions():
        yield images(2 * MOST_COLUMNS)
        raise AssertionError("one portion was enough")

    records = images(2)
    assert len(rows_of(portions(), records.schema, records.shape).rows[0].pictures) == MOST_COLUMNS


def test_a_class_without_pictures_and_many_classes_and_odd_names() -> None:
    names = ("猫", "x" * 300, "none of these")
    sheet = sheet_of(images(2, names=names))
    assert sheet.shape[1] == 3 * (WORDS + 34)
    many = images(400, side=64, channels=3, names=tuple(map(str, range(400))))
    shown = rows_of([many], many.schema, many.shape)
    assert shown.left_out == 400 - len(shown.rows) > 0
    assert contact_sheet(shown).nbytes < 10_000_000
    large = sheet_of(images(4, side=300))
    assert large.shape[2] == 2 * (100 + 2)


def test_sheets_stand_beside_each_other_in_colour_if_one_is() -> None:
    grey, colour = sheet_of(images(8)), sheet_of(images(8, channels=3))
    both = beside([("one", grey), ("two", colour)])
    assert both.shape[0] == 3
    assert (both[:, WORDS : WORDS + grey.shape[1], : grey.shape[2]] == grey).all()
    assert (
        both[:, WORDS:, grey.shape[2] + 8 :][:, : colour.shape[1], : colour.shape[2]] == colour
    ).all()


def test_tables_have_none_and_words_of_a_page_are_escaped() -> None:
    schema = Schema((Attribute("label", ("a",)),), label="label")
    table = Records(np.zeros((2, 3), np.float32), {"label": np.zeros(2, int)}, schema)
    with pytest.raises(UserError, match="needs images"):
        sheet_of(table)
    page = to_html(b"png", "<script>")
    assert "<script>" not in page
    assert 'src="data:image/png;base64,' in page
