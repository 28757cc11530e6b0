"""Image files to pixels, strictly: what cannot be read faithfully is refused by name.

A file must hold one 8-bit grey or colour picture. Nothing is guessed, dropped or
converted in silence, because a stand-in is only as good as what was read: a 16-bit scan
cut down to 8 bits or the first frame of an animation would be another dataset.

Metadata inside the file is ignored. An EXIF orientation tag is *not* applied: turning a
picture would swap height and width of some files of a set, and two files with the same
pixels would become different records. `ImageStack` says so once when it meets such a tag.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from PIL import Image, ImageFile

from understudy.data.records import Array
from understudy.errors import MixedSizesError, UserError
from understudy.progress import Progress, Silent

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
PIXEL_LIMIT = 64_000_000

_USUAL_SIZES, _SMALLEST_SIZE = (32, 64), 8
"""Sides that every method here takes, and the least that any does."""

_EXIF_ORIENTATION = 0x0112
_DEEP_MODES = ("I", "F")
_DECODER_ERRORS = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    RuntimeError,
    struct.error,
    zlib.error,
)


def _silent() -> Progress:
    return cast(Progress, Silent())


@dataclass(frozen=True)
class Reading:
    """How a caller wants image files to be read.

    size: every image is cropped to its central square and resized (Lanczos) to this
        height and width; `None` keeps the pixels as they are stored.
    channels: 1 for grey, 3 for colour; `None` keeps what the files hold.
    tells: whether to say that images had to be changed, where nobody asked for this size.
    """

    size: int | None = None
    channels: int | None = None
    progress: Progress = field(default_factory=_silent)
    tells: bool = False

    def __post_init__(self) -> None:
        if self.size is not None and not 1 <= self.size <= 4096:
            raise UserError(f"size must be a number of pixels from 1 to 4096, not {self.size}.")
        if self.channels not in (None, 1, 3):
            raise UserError(f"channels must be 1 (grey) or 3 (colour), not {self.channels}.")


def decode_image(data: bytes, name: str, pixel_limit: int = PIXEL_LIMIT) -> Image.Image:
    """The picture in `data`, in mode L or RGB; `name` is what an error calls it."""
    return _decode(data, name, pixel_limit)[0]


def read_file(path: Path) -> bytes:
    """The bytes of an image file, or a sentence saying why they cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); make it a readable file or remove it."
        ) from error


def fit(image: Image.Image, reading: Reading) -> Image.Image:
    """The picture in the channels and size that the caller asked for."""
    if reading.channels is not None:
        image = image.convert("L" if reading.channels == 1 else "RGB")
    if reading.size is None or image.size == (reading.size, reading.size):
        return image
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side))
    return square.resize((reading.size, reading.size), Image.Resampling.LANCZOS)


def fit_pixels(pixels: Array, reading: Reading) -> Array:
    """`fit` for images that are already a uint8 array [N, C, H, W]."""
    channels, height, width = pixels.shape[1:]
    wanted = (reading.channels or channels, reading.size or height, reading.size or width)
    if (channels, height, width) == wanted:
        return pixels
    _say_fitted((channels, height, width), wanted, reading)
    fitted = np.empty((len(pixels), *wanted), np.uint8)
    for i, one in enumerate(pixels):
        picture = Image.fromarray(one[0] if channels == 1 else one.transpose(1, 2, 0))
        fitted[i] = to_array(fit(picture, reading))
    return fitted


def _say_fitted(stored: tuple[int, ...], wanted: tuple[int, ...], reading: Reading) -> None:
    """`stored` is the shape of the first picture that had to be changed."""
    if not reading.tells:
        return
    crop = "" if stored[1:] == wanted[1:] else ", cut to its middle square and resized"
    reading.progress.say(
        f"images are read as {wanted[2]}x{wanted[1]} {_hue(wanted)}{crop}; the first that had to "
        f"be changed is {stored[2]}x{stored[1]} {_hue(stored)}."
    )


def to_array(image: Image.Image) -> Array:
    """A grey or colour picture as uint8 [C, H, W]."""
    pixels = np.asarray(image, np.uint8)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


class ImageStack:
    """Decodes image after image into one array, and refuses the first that does not fit.

    stored: (width, height) that every picture must have before it is fitted.
    """

    def __init__(self, count: int, reading: Reading, stored: tuple[int, int] | None = None) -> None:
        self._reading = reading
        self._stored = stored
        self._count = count
        self._filled = 0
        self._pixels: Array | None = None
        self._first = ""
        self._turned: str | None = None
        self._fitted: tuple[int, ...] | None = None

    def add(self, data: bytes, name: str, at: int | None = None) -> None:
        """The next image, or the one at this position; each position is to be filled once."""
        image, turned = _decode(data, name, PIXEL_LIMIT)
        if self._stored is not None and image.size != self._stored:
            raise UserError(
                f"{name} is {image.width}x{image.height} pixels, but the published files are "
                f"{self._stored[0]}x{self._stored[1]}; put the original back."
            )
        if turned and self._turned is None:
            self._turned = name
        pixels = to_array(fit(image, self._reading))
        stored = (len(image.getbands()), image.height, image.width)
        if stored != pixels.shape and self._fitted is None:
            self._fitted = stored
        if self._pixels is None:
            self._pixels = np.empty((self._count, *pixels.shape), np.uint8)
            self._first = name
        self._check_fits(pixels.shape, name)
        self._pixels[self._filled if at is None else at] = pixels
        self._filled += 1

    def finish(self) -> Array:
        """The images as uint8 [N, C, H, W]."""
        if self._pixels is None or self._filled != self._count:
            raise ValueError(f"{self._count} images were announced, {self._filled} were added")
        if self._turned is not None:
            self._reading.progress.say(
                f"{self._turned} (the first of its kind) carries an EXIF orientation, which is "
                "not applied: pixels are used as stored."
            )
        if self._fitted is not None:
            _say_fitted(self._fitted, self._pixels.shape[1:], self._reading)
        return self._pixels

    def _check_fits(self, shape: tuple[int, ...], name: str) -> None:
        assert self._pixels is not None
        first = self._pixels.shape[1:]
        if shape[0] != first[0]:
            raise UserError(
                f"{self._first} is {_hue(first)} but {name} is {_hue(shape)}; convert them to "
                "one kind, or pass --channels 1 (grey) or --channels 3 (colour)."
            )
        if shape != first:
            sizes = _sizes_up_to(min(*first[1:], *shape[1:]))
            raise MixedSizesError(
                f"{self._first} is {first[2]}x{first[1]} pixels but {name} is "
                f"{shape[2]}x{shape[1]}; pass {' or '.join(f'--size {size}' for size in sizes)} "
                "to crop and resize every image to one size.",
                sizes[0],
            )


def _sizes_up_to(side: int) -> list[int]:
    """Sizes that the methods take and that enlarge images of this side as little as can be.

    >>> _sizes_up_to(369), _sizes_up_to(48), _sizes_up_to(28)
    ([32, 64], [32], [28])
    """
    return [size for size in _USUAL_SIZES if size <= side] or [max(side, _SMALLEST_SIZE)]


def _decode(data: bytes, name: str, pixel_limit: int) -> tuple[Image.Image, bool]:
    """The picture, and whether its file asks viewers to turn it."""
    if not data:
        raise UserError(f"{name} is empty (0 bytes); put the image back or remove the file.")
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise UserError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is on, so a truncated image could not be told "
            "from a whole one; leave it off while loading."
        )
    with _without_warnings():
        image = _open(data, name, pixel_limit)
        _refuse_lossy(image, name, pixel_limit)
        turned = _is_turned(image, name)
        try:
            image.load()
        except _DECODER_ERRORS as error:
            raise UserError(
                f"{name} is truncated or damaged, its pixels cannot be decoded; "
                "replace it with a whole copy or remove it."
            ) from error
        return _to_grey_or_colour(image, name), turned


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Pillow warns about what is refused, or rightly ignored (EXIF), here anyway."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _open(data: bytes, name: str, pixel_limit: int) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise _too_many_pixels(name, pixel_limit) from error
    except _DECODER_ERRORS as error:
        raise UserError(
            f"{name} is not an image that can be read; use an 8-bit PNG or JPEG file."
        ) from error


def _refuse_lossy(image: Image.Image, name: str, pixel_limit: int) -> None:
    """Refuse, before any pixel is decoded, what would not survive decoding unchanged."""
    if image.width * image.height > pixel_limit:
        raise _too_many_pixels(name, pixel_limit)
    frames = _frames(image, name)
    if frames > 1:
        raise UserError(
            f"{name} holds {frames} frames (animated or multi-page); save one frame per file."
        )
    if image.mode.startswith(_DEEP_MODES) or _stored_deeper_than_8_bits(image):
        raise UserError(
            f"{name} has more than 8 bits per channel (mode {image.mode}); "
            "rescale it to 8 bits yourself, so that the scaling is your choice."
        )
    if image.mode == "CMYK":
        raise UserError(f"{name} is a CMYK image; convert it to RGB or grey.")


def _frames(image: Image.Image, name: str) -> int:
    try:
        return int(getattr(image, "n_frames", 1))
    except _DECODER_ERRORS as error:
        raise UserError(
            f"{name} is truncated or damaged, its frames cannot be counted; "
            "replace it with a whole copy or remove it."
        ) from error


def _stored_deeper_than_8_bits(image: Image.Image) -> bool:
    """Pillow opens 16-bit colour as 8-bit RGB; only the raw mode of the data tells."""
    for tile in getattr(image, "tile", ()):
        arguments = tile[3] if isinstance(tile[3], tuple) else (tile[3],)
        if any(isinstance(a, str) and (";16" in a or ";32" in a) for a in arguments):
            return True
        if image.format == "PPM" and any(isinstance(a, int) and a > 255 for a in arguments):
            return True
    return False


def _to_grey_or_colour(image: Image.Image, name: str) -> Image.Image:
    if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA", "La", "RGBa"):
        image = _without_alpha(image, name)
    if image.mode == "1":
        image = image.convert("L")
    elif image.mode in ("P", "YCbCr"):
        image = image.convert("RGB")
    if image.mode not in ("L", "RGB"):
        raise UserError(f"{name} is in colour mode {image.mode}; convert it to RGB or grey.")
    return image


def _without_alpha(image: Image.Image, name: str) -> Image.Image:
    grey = image.mode in ("L", "LA", "La", "1")
    image = image.convert("LA" if grey else "RGBA")
    darkest, _ = image.getchannel("A").getextrema()
    if darkest != 255:
        raise UserError(
            f"{name} has transparent pixels; flatten it onto a background of your choice and "
            "save it without alpha."
        )
    return image.convert("L" if grey else "RGB")


def _is_turned(image: Image.Image, name: str) -> bool:
    try:
        turned = image.getexif().get(_EXIF_ORIENTATION, 1) not in (0, 1)
    except _DECODER_ERRORS:
        return False
    if turned and image.format == "TIFF":
        # Pillow turns TIFF files while decoding, whatever the caller wants.
        raise UserError(f"{name} is a TIFF file with an orientation tag; save it upright, as PNG.")
    return turned


def _too_many_pixels(name: str, pixel_limit: int) -> UserError:
    return UserError(
        f"{name} unpacks to more than {pixel_limit:,} pixels; shrink it before loading."
    )


def _hue(shape: tuple[int, ...]) -> str:
    return "grey" if shape[0] == 1 else "colour"
