"""What one phase of a run took: its time, its memory, and the machine that it ran on."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from understudy.bench.evidence.provenance import Provenance

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_FORGET_PEAK = "5"


class Measured:
    """A phase under way; `to_json` once it is over."""

    def __init__(self, provenance: Provenance) -> None:
        self.provenance = provenance
        self.peak_gigabytes = 0.0

    def to_json(self, key: str, seconds: float) -> dict[str, Any]:
        """What is kept of a finished phase; `seconds` counts every start of it."""
        return {
            "key": key,
            "seconds": seconds,
            "peak_gigabytes": round(self.peak_gigabytes, 3),
            **self.provenance.to_json(),
        }


@contextmanager
def measured(provenance: Provenance, device: str) -> Iterator[Measured]:
    """Measure the peak memory of this process while the body runs on `device`."""
    used = {**provenance.hardware, "device": device}
    found = Measured(replace(provenance, hardware=used))
    _forget_peak()
    yield found
    found.peak_gigabytes = peak_gigabytes()


def peak_gigabytes() -> float:
    """The most memory that this process has held since the peak was last forgotten."""
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _forget_peak() -> None:
    """Where the system allows it; else a phase's peak is that of its process so far."""
    with suppress(OSError):
        _CLEAR.write_text(_FORGET_PEAK)
