"""Who watches the door in a white-box audit: sees every output, knows every other unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from understudy.audit.canaries import Scores
from understudy.errors import UserError
from understudy.privacy.door.replay_tape import Tape
from understudy.privacy.sums.clipping import Blocks
from understudy.privacy.sums.units import Rows

LOUDNESS = 1000.0
"""How much longer than the clip a canary is, so that a clip that does not hold is heard."""


class TooManyCanariesError(UserError):
    """No sum of the method is wide enough for them: the fault of no callback."""


@dataclass(frozen=True)
class Release:
    """What the plan says of one output of the door.

    scale: what the output must be multiplied with to give the noised sum.
    """

    name: str
    rate: float
    clip: float
    sigma: float
    scale: float


class Observer(Tape):
    """Adds up, for each canary, the evidence that it is in.

    A canary's vector is a coordinate of its own. The observer is told what all other units
    contributed there, as differential privacy allows it to know, so what is left is the
    canary (or not) and noise. `scores` holds log likelihood ratios under the plan's own
    rate and noise.
    """

    def __init__(self, canaries: int, seed: int, mechanisms: int = 1) -> None:
        """mechanisms: how many the plan holds; if the only one is too narrow, no other comes."""
        super().__init__()
        self.scores: Scores = np.zeros(canaries)
        self.watched = 0
        self.widest = 0
        self._canaries = canaries
        self._seed = seed
        self._mechanisms = mechanisms
        self._places: dict[tuple[str, int], torch.Tensor] = {}
        self._expected: tuple[Release, torch.Tensor, torch.Tensor] | None = None

    def expect(self, others: torch.Tensor, release: Release) -> bool:
        """Be told what all others contributed to the next output, and whether canaries fit.

        A sum with fewer coordinates than canaries has none in it.
        """
        width = len(others)
        self.widest = max(self.widest, width)
        if width < self._canaries:
            if self._mechanisms == 1:
                self.require_evidence()
            return False
        places = self._places_in(release.name, width).to(others.device)
        self._expected = (release, places, others[places].clone())
        return True

    def voices(self, present: Rows, width: int, release: Release) -> Blocks:
        """The vectors of the canaries that are present, to be clipped like anybody's.

        They lie where the sum is that `expect` was told of last.
        """
        device = self._expected[1].device if self._expected is not None else torch.device("cpu")
        places = self._places_in(release.name, width)[torch.from_numpy(present)].to(device)
        loud = torch.full((len(present), 1), LOUDNESS * release.clip, device=device)
        return Blocks(loud, places, width)

    def through(self, output: torch.Tensor) -> torch.Tensor:
        """Take the evidence out of an output on its way; the method gets it unchanged."""
        if self._expected is not None:
            release, places, others = self._expected
            self._expected = None
            seen = output.detach().double().flatten()[places.to(output.device)]
            left = (seen * release.scale).cpu() - others.cpu()
            self.scores += log_ratio((left / release.clip).numpy(), release.rate, release.sigma)
            self.watched += 1
        return output

    def require_evidence(self) -> None:
        if not self.watched:
            raise TooManyCanariesError(
                f"--canaries {self._canaries} is too many: each needs a coordinate of its own and "
                f"the widest sum of this method has {self.widest:,}; use at most {self.widest}."
            )

    def _places_in(self, name: str, width: int) -> torch.Tensor:
        """One coordinate for each canary, the same at every step of one mechanism."""
        key = name, width
        if key not in self._places:
            rng = np.random.default_rng((self._seed, width))
            self._places[key] = torch.from_numpy(rng.permutation(width)[: self._canaries])
        return self._places[key]


def log_ratio(value: Scores, rate: float, sigma: float) -> Scores:
    """How much likelier `value` is with the canary (sampled at `rate`) than without it."""
    exponent = (2 * value - 1) / (2 * sigma**2)
    if rate >= 1:
        return np.asarray(exponent)
    return np.asarray(np.logaddexp(np.log1p(-rate), np.log(rate) + exponent))
