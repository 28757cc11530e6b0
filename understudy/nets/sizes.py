"""Which image sizes the networks take, and how they halve them."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.errors import UserError

SMALLEST, LARGEST = 8, 64

Shape = tuple[int, int, int]
"""Channels, height, width."""


def image_shape(shape: Sequence[int], who: str) -> Shape:
    """The shape as (channels, height, width), or an error that says what would be right."""
    wanted = f"{who} takes images of 1 or 3 channels and {SMALLEST} to {LARGEST} pixels a side"
    if len(shape) != 3:
        raise UserError(f"{wanted}, and these records, of shape {list(shape)}, are no images.")
    if shape[0] not in (1, 3) or not all(SMALLEST <= side <= LARGEST for side in shape[1:]):
        raise UserError(
            f"{wanted}, not images of shape {list(shape)}; "
            "make them fit with --size 32 (or 64, say) and --channels 1 or 3."
        )
    return shape[0], shape[1], shape[2]


def halvings(height: int, width: int, down_to: int = 7) -> list[tuple[int, int]]:
    """Sizes from the whole image down, halved (rounding up) until a side is small enough.

    >>> halvings(28, 28)
    [(28, 28), (14, 14), (7, 7)]
    >>> halvings(8, 8)
    [(8, 8), (4, 4)]
    """
    sizes = [(height, width)]
    while min(sizes[-1]) > down_to:
        sizes.append(((sizes[-1][0] + 1) // 2, (sizes[-1][1] + 1) // 2))
    return sizes
