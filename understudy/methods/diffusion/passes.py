"""A denoiser's passes when images are drawn: on a GPU compiled, and always of one shape.

Nothing but speed rests on it. What cannot be compiled is computed as it stands.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from understudy.methods.diffusion.denoising import Preconditioning
from understudy.nets.compiling import compiled
from understudy.nets.per_example.compiled import CHANNELS_LAST
from understudy.nets.per_example.norms import normalised

INDUCTOR = "inductor"
_COMPARED, _WORDS = 8, 200
_TOLERANCE = 5e-2
"""Of images that a compiled pass in bfloat16 gives, by norm: each product rounds by 4e-3."""

_CANNOT = (
    *(ImportError, NotImplementedError, RuntimeError, OSError),
    *(ValueError, TypeError, AttributeError),
)
"""What a compiler raises where it, or what it calls, is not there or not up to it."""


class Passes:
    """Clean images for any number of noisy ones at one noise level.

    rows: how many the network sees at once. through: torch's compiler of this name; None
    computes as it stands. Compiled, the last rows are padded with copies of the first, and
    what the network says of these is dropped: rows do not mix, so no image depends on that.
    say: is told, once, why nothing is compiled though it was asked for.
    """

    def __init__(
        self,
        network: nn.Module,
        scaling: Preconditioning,
        rows: int,
        through: str | None,
        say: Callable[[str], None],
    ) -> None:
        self._network, self._scaling, self._rows, self._say = network, scaling, rows, say
        self._compiled: Callable[..., torch.Tensor] | None = None
        self._tried, self._twin = False, network
        if through is not None:
            self._twin = channels_last_twin(network)
            options = dict(CHANNELS_LAST) if through == INDUCTOR else None
            with self._or_as_it_stands():
                self._compiled = compiled(_clean, backend=through, fullgraph=True, options=options)

    @property
    def is_compiled(self) -> bool:
        """Whether passes are compiled, as far as is known."""
        return self._compiled is not None

    @torch.no_grad()
    def __call__(self, images: torch.Tensor, level: float, codes: torch.Tensor) -> torch.Tensor:
        levels = torch.full((len(images),), level, device=images.device)
        parts = zip(*(torch.split(t, self._rows) for t in (images, levels, codes)), strict=True)
        with _low_precision(images.device):
            return torch.cat([self._some(*part) for part in parts])

    def _some(
        self, images: torch.Tensor, levels: torch.Tensor, codes: torch.Tensor
    ) -> torch.Tensor:
        if self._compiled is not None and not self._tried:
            self._try(images, levels, codes)
        if self._compiled is None:
            return _clean(self._network, self._scaling, images, levels, codes)
        real, missing = len(images), self._rows - len(images)
        if missing:
            images, levels, codes = (_padded(t, missing) for t in (images, levels, codes))
        return self._compiled(self._twin, self._scaling, images, levels, codes)[:real]

    def _try(self, images: torch.Tensor, levels: torch.Tensor, codes: torch.Tensor) -> None:
        """Compile, and compare some images with those of the network as it stands."""
        self._tried = True
        with self._or_as_it_stands():
            found = self._some(images, levels, codes)[:_COMPARED].double()
            few = (t[:_COMPARED] for t in (images, levels, codes))
            wanted = _clean(self._network, self._scaling, *few).double()
            off = float((found - wanted).norm() / wanted.norm().clamp(min=1e-12))
            if not off <= _TOLERANCE:
                raise ValueError(f"images are off by {off:.2g}")

    @contextlib.contextmanager
    def _or_as_it_stands(self) -> Iterator[None]:
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except _CANNOT as error:
            self._compiled = None
            why = " ".join(str(error).split())[:_WORDS]
            self._say(f"drawing is not compiled, so it is slower: {type(error).__name__}: {why}")


def channels_last_twin(network: nn.Module) -> nn.Module:
    """A copy with its kernels channels-last, and normalisation in the form of the private
    engine, which copies no image that lies so."""
    twin = copy.deepcopy(network)
    twin.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for module in list(twin.modules()):
        for name, child in module.named_children():
            if type(child) is nn.GroupNorm:
                setattr(module, name, _Norm(child))
    return twin


class _Norm(nn.Module):
    """Group normalisation, by channel first."""

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        self._groups, self._eps = norm.num_groups, norm.eps

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return normalised(inputs, self.weight, self.bias, self._groups, self._eps)[0]


def _clean(
    network: nn.Module,
    scaling: Preconditioning,
    images: torch.Tensor,
    levels: torch.Tensor,
    codes: torch.Tensor,
) -> torch.Tensor:
    return scaling.denoised(network, images, levels, codes).float()


def _low_precision(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """bfloat16 on a GPU; full precision elsewhere."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return contextlib.nullcontext()


def _padded(rows: torch.Tensor, missing: int) -> torch.Tensor:
    return torch.cat([rows, rows[:1].expand(missing, *rows.shape[1:])])
