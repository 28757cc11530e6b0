"""Settings of DP-FETA."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.errors import UserError
from understudy.methods.config import setting
from understudy.methods.diffusion.central_axes import AxesSettings
from understudy.methods.diffusion.central_images import CentralSettings
from understudy.methods.diffusion.public_training import PublicCourse
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.nets.sizes import Shape


@dataclass(frozen=True)
class FetaConfig(DiffusionConfig):
    """Settings of DP-FETA. None is measured on private records."""

    steps: int = setting(
        1000, "DP-SGD steps (0: none, and the whole budget is that of the sums)", low=0
    )
    central_share: float = setting(
        0.03,
        "what the central images take of the budget (of its square, roughly), as a part of what "
        "the steps take; without steps, shares say how the releases divide it",
        low=1e-6,
        high=0.99,
    )
    central_side: int = setting(14, "pixels a side of the central images, at most", low=1)
    central_clip: float = setting(5.0, "longest vector of one record (image and count)", low=1e-9)
    central_mass: float = setting(
        0.1, "part of a vector's square that counts records", low=1e-4, high=0.9
    )
    central_ground: float = setting(
        0.0, "pixel value in [0, 1] that central images count from", low=0.0, high=1.0
    )
    central_cells: int = setting(
        1, "central images of each class, by public random patterns (a power of two)", low=1
    )
    central_shapes: float = setting(
        0.0,
        "part of the central images that are learned as shapes: bent, cut out at a random "
        "brightness and shaded",
        low=0.0,
        high=1.0,
    )
    central_axes_share: float = setting(
        0.0,
        "as central_share, for another release: along what images of a class differ (0: none)",
        low=0.0,
        high=0.99,
    )
    central_axes_side: int = setting(10, "waves a side that tell a record's difference", low=1)
    central_axes_clip: float = setting(
        6.0, "about the longest difference of one record", low=1e-6, high=1e6
    )
    central_spread: bool = setting(
        False,
        "images of a class also differ, beside along its axes, as those of all classes do at each "
        "scale, and at scales too small to be told by their power law",
    )
    central_steps: int = setting(1000, "training steps on the central images", low=1)
    central_batch: int = setting(256, "images in such a step", low=1)
    central_rate: float = setting(1e-3, "Adam's rate in such a step", low=1e-7, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.central_cells & (self.central_cells - 1):
            raise UserError("setting 'central_cells' must be a power of two, as 1, 2, 4 or 8.")

    def central(self, shape: Shape, classes: int, seed: int) -> CentralSettings:
        return CentralSettings(
            shape,
            classes,
            self.central_side,
            self.central_clip,
            self.central_mass,
            self.central_ground,
            self.central_cells,
            seed,
        )

    @property
    def course(self) -> PublicCourse:
        return PublicCourse(
            "learning the central images",
            self.central_steps,
            self.central_batch,
            self.central_rate,
        )

    @property
    def products_clip(self) -> float:
        """The clip of the sum of products, which are as long as a difference squared."""
        return self.central_axes_clip**2

    def axes(self, shape: Shape, classes: int) -> AxesSettings:
        return AxesSettings(
            shape, classes, self.central_axes_side, self.products_clip, self.central_mass
        )
