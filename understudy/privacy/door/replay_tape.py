"""A tape of what came out of the door, for the replay test.

Filled on one set of records and played back while callbacks run on another: whatever
a method produces must then be the same, for it can depend on records only through the
door's outputs.
"""

from __future__ import annotations

import torch

from understudy.errors import PrivacyError


class Tape:
    """Keeps outputs, or gives the kept ones back in their place."""

    def __init__(self, outputs: list[torch.Tensor] | None = None) -> None:
        self.outputs = [] if outputs is None else outputs
        self._replaying = outputs is not None
        self._next = 0

    @classmethod
    def replay(cls, filled: Tape) -> Tape:
        return cls(outputs=filled.outputs)

    def through(self, output: torch.Tensor) -> torch.Tensor:
        """What the method gets to see of this output."""
        if not self._replaying:
            self.outputs.append(output.detach().clone())
            return output
        if self._next >= len(self.outputs) or self.outputs[self._next].shape != output.shape:
            raise PrivacyError("the method asked the door for other outputs than before.")
        self._next += 1
        return self.outputs[self._next - 1].clone()

    @property
    def finished(self) -> bool:
        return not self._replaying or self._next == len(self.outputs)
