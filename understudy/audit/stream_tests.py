"""Whether a random stream gives out anything twice, over millions of values at once.

Exact and quick: everything is turned into words of 46 random bits or more, the words are sorted,
and those that stood there before are counted. It sees what no correlation does: a block of the
stream that comes again anywhere else, at whatever distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_FEW = 10
_BITS_IN_A_RUN = 64
_HALF_OF_A_WORD = 32


def never_comes_again(words: npt.NDArray[Any]) -> bool:
    """Whether hardly any word stands among the words twice.

    False alarms: of four million independent words of 46 bits, ten come again with probability
    1e-15. What comes again by fault does so by thousands.
    """
    return comes_again(words) < _FEW


def comes_again(words: npt.NDArray[Any]) -> int:
    """How many of the words stood before among them."""
    in_order = np.sort(words)
    return int(np.count_nonzero(in_order[1:] == in_order[:-1]))


def runs_of_booleans(heads: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """The 64 fair coins that begin at each place, as one word.

    Those that overlap come again together: of four million, ten with probability 1e-9.
    """
    words, length = heads.astype(np.uint64), 1
    while length < _BITS_IN_A_RUN:
        words = (words[:-length] << np.uint64(length)) | words[length:]
        length *= 2
    return words


def runs_of_two(whole: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Each whole number (of 32 bits) with the next: two draws at a scale of 2^24 have 51 bits."""
    first, second = whole[:-1] << _HALF_OF_A_WORD, whole[1:] & (2**_HALF_OF_A_WORD - 1)
    pairs: npt.NDArray[np.int64] = first ^ second
    return pairs
