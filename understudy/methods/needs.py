"""The packages that a method needs beside those that every installation has."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from understudy.errors import UserError
from understudy.methods.info import MethodInfo


def require_packages(info: MethodInfo) -> None:
    """Refuse a method whose packages are not installed here, by their names."""
    missing = [name for name in info.needs if not _is_installed(name)]
    if missing:
        raise UserError(
            f"{info.name} needs {', '.join(missing)}; install with: pip install {' '.join(missing)}"
        )


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True
