"""Speed settings of DP-SGD. None of them can change its guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from understudy.errors import UserError

BACKENDS = ("auto", "compiled", "expanded", "vmap")
PRECISIONS = ("float32", "bfloat16")
_MEMORY, _CACHED, _ROWS = 2**28, 12 * 2**20, 32
"""On a CPU: as many bytes of gradients as its caches hold, but at least 32 rows where these fit in
256 MB. Always filling 256 MB, a step of a network of 0.1 million parameters took 2.5 times as long.
"""

_FUSED_MEMORY, _FUSED_ROWS = 11 * 2**28, 1408
"""On a GPU: enough rows to fill it; a GPU with less memory halves the micro-batch. With 3 GiB of
gradients, or 1,536 rows, steps of 1.9 and 3.8 million parameters took 11.2 GB; these limits keep
them under 11. At a multiplicity of one the gradients are the limit, at a high one the rows."""


@dataclass(frozen=True)
class Speed:
    """micro_batch: rows computed at once (0: as many as fit in 12 MB of gradients, or 32 if
    these fit in 256 MB; on a GPU in 3 GB, and at most 1,408); halved when memory runs out.
    backend: how per-example gradients are computed; `auto` takes the first that passes its trial.
    precision: autocast of the forward and backward pass; norms, sums and noise are float64.
    block_steps: how many steps the ledger reserves and commits together; fewer if they are slow.
    cuda_graph: on a GPU, capture a micro-batch as a CUDA graph and replay it for all others.
    """

    micro_batch: int = 0
    backend: str = "auto"
    precision: str = "float32"
    block_steps: int = 50
    cuda_graph: bool = False

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UserError(f"backend must be one of {', '.join(BACKENDS)}, not {self.backend!r}.")
        if self.precision not in PRECISIONS:
            raise UserError(
                f"precision must be one of {', '.join(PRECISIONS)}, not {self.precision!r}."
            )
        if self.micro_batch < 0 or self.block_steps < 1:
            raise UserError("micro_batch must be at least 0 and block_steps at least 1.")

    def records_at_once(
        self, width: int, multiplicity: int, expected: float, fused: bool = False
    ) -> int:
        """Records per micro-batch, for gradients of `width` parameters.

        The number depends on declared figures only, never on how many records a step sampled.
        fused: one gradient is formed for all augmentations of a record, as on a GPU.
        """
        if self.micro_batch:
            return max(1, self.micro_batch // multiplicity)
        if fused:
            size = 2 if self.precision == "bfloat16" else 4
            fitting = min(_FUSED_ROWS // multiplicity, _FUSED_MEMORY // (size * width))
            return _filled(max(1, int(fitting)), expected)
        each = 4 * width * multiplicity
        quick = max(_CACHED // each, _ROWS // multiplicity)
        return int(max(1, min(_MEMORY // each, quick, 1024, round(expected))))


def _filled(most: int, expected: float) -> int:
    """The largest number of records per micro-batch, at most `most`, that pads almost as little as
    the best one, on average over Poisson samples of `expected` records.

    The last micro-batch is padded, and padding costs as much as records do: 2,048 expected
    records in micro-batches of 384 cost 2,304, in micro-batches of 352 mostly 2,112.
    """
    spread = math.sqrt(expected)
    usual = [expected + spread * NormalDist().inv_cdf((n + 0.5) / 64) for n in range(64)]
    most = min(most, math.ceil(max(usual)))
    step = 8 if most >= 64 else 1
    choices = range(most, most * 2 // 3, -step)
    costs = {rows: rows * sum(math.ceil(n / rows) for n in usual) for rows in choices}
    return max(rows for rows, cost in costs.items() if cost <= 1.01 * min(costs.values()))
