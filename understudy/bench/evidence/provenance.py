"""What ran, and on what kind of machine; nothing that names the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNKNOWN = "unknown"
_PACKAGES = (
    *("understudy", "torch", "numpy", "opacus", "dp-accounting", "scikit-learn", "scipy"),
    *("pillow", "duckdb"),
)


@dataclass(frozen=True)
class Provenance:
    """The code, the packages and the machine: read before the work begins.

    commit: `unknown` where the package does not run from a git checkout; `dirty` is then None.
    """

    commit: str
    dirty: bool | None
    versions: Mapping[str, str]
    hardware: Mapping[str, Any]

    @staticmethod
    def read(repository: Path | None = None) -> Provenance:
        """Of this process; by default the checkout that this package lies in, if any."""
        checkout = repository or _own_checkout()
        commit = changed = ""
        if checkout is not None:
            commit = _git(checkout, "rev-parse", "HEAD")
            changed = _git(checkout, "status", "--porcelain", "--untracked-files=no")
        return Provenance(
            commit=commit or UNKNOWN,
            dirty=bool(changed) if commit else None,
            versions=_versions(),
            hardware=_hardware(),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "commit": self.commit,
            "dirty": self.dirty,
            "versions": dict(self.versions),
            "hardware": dict(self.hardware),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Provenance:
        return Provenance(
            commit=data["commit"],
            dirty=data["dirty"],
            versions=dict(data["versions"]),
            hardware=dict(data["hardware"]),
        )


def _own_checkout() -> Path | None:
    """The checkout that tracks this package: not one that an installed copy happens to lie in."""
    package = Path(__file__).resolve().parents[2]
    return package if _git(package, "ls-files", "--error-unmatch", "__init__.py") else None


def _git(folder: Path, *arguments: str) -> str:
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:  # no git on this machine
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _hardware() -> dict[str, Any]:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gigabytes": round(pages / 2**30, 1),
    }
    cards = _graphics_cards()
    return {**found, "gpus": cards} if cards else found


def _processor() -> str:
    names = _values(Path("/proc/cpuinfo"), "model name")
    return names[0] if names else platform.machine()


def _graphics_cards() -> list[str]:
    """As the NVIDIA driver names them, which takes no import of torch."""
    found = Path("/proc/driver/nvidia/gpus").glob("*/information")
    return [name for file in sorted(found) for name in _values(file, "Model")]


def _values(file: Path, key: str) -> list[str]:
    """The values of the lines `key : value` of a file, if it can be read."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.startswith(key)]
