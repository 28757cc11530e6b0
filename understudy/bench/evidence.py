"""Evidence: the file that a measurement leaves behind, with all it takes to repeat it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import UserError

FORMAT = "understudy-evidence/1"
_PACKAGES = ("understudy", "torch", "numpy", "opacus", "dp-accounting", "scikit-learn", "pillow")


@dataclass(frozen=True)
class Provenance:
    """What ran, where: read before the measurement begins."""

    commit: str
    dirty: bool
    versions: Mapping[str, str]
    hardware: Mapping[str, Any]

    @staticmethod
    def read(repository: Path) -> Provenance:
        return Provenance(
            commit=_git(repository, "rev-parse", "HEAD") or "unknown",
            dirty=bool(_git(repository, "status", "--porcelain", "--untracked-files=no")),
            versions=_versions(),
            hardware=_hardware(),
        )


def write_evidence(
    path: Path,
    *,
    provenance: Provenance,
    command: str,
    config: Mapping[str, Any],
    seeds: Sequence[int],
    seconds: Mapping[str, float],
    peak_gigabytes: float | None,
    result: Mapping[str, Any],
) -> None:
    """Write one evidence file; an existing one is never overwritten."""
    if path.exists():
        raise UserError(f"{path} exists already; evidence is never edited: delete it to repeat.")
    content = {
        "format": FORMAT,
        "commit": provenance.commit,
        "dirty": provenance.dirty,
        "command": command,
        "config": dict(config),
        "seeds": list(seeds),
        "versions": dict(provenance.versions),
        "hardware": dict(provenance.hardware),
        "seconds": dict(seconds),
        "peak_gigabytes": peak_gigabytes,
        "result": dict(result),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    new.rename(path)


def _git(repository: Path, *arguments: str) -> str:
    found = subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _hardware() -> dict[str, Any]:
    """Processor, cores and memory; nothing that names the machine."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gigabytes": round(pages / 2**30, 1),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
