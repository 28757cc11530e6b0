"""Speed settings of DP-SGD. None of them can change its guarantee."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.errors import UserError
from understudy.nets.per_example.micro_batches import rows_on_cpu, rows_on_gpu
from understudy.privacy.door.steps import MOST_STEPS

BACKENDS = ("auto", "compiled", "expanded", "vmap")
PRECISIONS = ("float32", "bfloat16")


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
    block_steps: int = MOST_STEPS
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
            return rows_on_gpu(size * width, multiplicity, expected)
        return rows_on_cpu(4 * width * multiplicity, multiplicity, expected)
