"""The 1,797 real handwritten digits that ship with scikit-learn, 8x8 pixels.

They are the test half of the UCI set "Optical Recognition of Handwritten Digits"
(E. Alpaydin and C. Kaynak, 1998), written by 13 people who are not named in the data.
"""

from __future__ import annotations

import numpy as np

from understudy.data.records import Images, Records
from understudy.data.schema import Attribute, Schema
from understudy.data.splits import stratified_split

_BRIGHTEST = 16
_SPLIT_SEED = 20_240_229
_PARTS = {"train": 0.8, "test": 0.2}


def digits() -> Records:
    """All digits as uint8 images [1797, 1, 8, 8]: 0 to 16 in the original is 0 to 255 here."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = np.rint(found.images * (255 / _BRIGHTEST)).astype(np.uint8)
    schema = Schema((Attribute("label", tuple("0123456789")),), label="label")
    return Images(pixels[:, None], {"label": found.target.astype(np.int64)}, schema)


def digit_parts() -> dict[str, Records]:
    """The fixed benchmark parts: 1,438 to train on and 359 to test on, every class in proportion.

    A claim about a run on them says "given the split".
    """
    return stratified_split(digits(), _PARTS, seed=_SPLIT_SEED)
