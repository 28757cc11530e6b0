"""What a shell offers when Tab is pressed: names of methods and datasets."""

from __future__ import annotations


def methods(incomplete: str) -> list[str]:
    from understudy.methods.registry import method_names

    return [name for name in method_names() if name.startswith(incomplete.lower())]


def datasets(incomplete: str) -> list[str]:
    """Names of the catalog; where none fits, the shell goes on with files."""
    from understudy.data.catalog import catalog

    return [name for name in catalog() if name.startswith(incomplete)]
