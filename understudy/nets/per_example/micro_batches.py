"""How many records a micro-batch holds."""

from __future__ import annotations

import math
from statistics import NormalDist

_MEMORY, _CACHED, _ROWS = 2**28, 12 * 2**20, 32
"""On a CPU: as many bytes of gradients as its caches hold, but at least 32 rows where these fit in
256 MB. Always filling 256 MB, a step of a network of 0.1 million parameters took 2.5 times as long.
"""

_FUSED_MEMORY, _FUSED_ROWS = 11 * 2**28, 1408
"""On a GPU: enough rows to fill it; a GPU with less memory halves the micro-batch. With 3 GiB of
gradients, or 1,536 rows, steps of 1.9 and 3.8 million parameters took 11.2 GB; these limits keep
them under 11. At a multiplicity of one the gradients are the limit, at a high one the rows."""


def rows_on_cpu(record_bytes: int, multiplicity: int, expected: float) -> int:
    """record_bytes: of one record's gradients, for all its augmentations."""
    quick = max(_CACHED // record_bytes, _ROWS // multiplicity)
    return int(max(1, min(_MEMORY // record_bytes, quick, 1024, round(expected))))


def rows_on_gpu(gradient_bytes: int, multiplicity: int, expected: float) -> int:
    """gradient_bytes: of one record's gradient, formed for all its augmentations at once."""
    fitting = min(_FUSED_ROWS // multiplicity, _FUSED_MEMORY // gradient_bytes)
    return _filled(max(1, int(fitting)), expected)


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
