"""What a run calls its data where others read it."""

from __future__ import annotations

from understudy.run.folder import RunFolder
from understudy.run.prepare import Prepared

UNNAMED = "private data"

RELEASE = "release.json"
"""The file of a run folder that says where the release went, with its digest and given title."""


def name_for_others(prepared: Prepared) -> str:
    """The name of the data in titles: what the owner calls them, or their name in the catalog.

    Guarantee: the name of a private folder or file leaves with nothing, for it may say what nobody
    else is to know (a hospital, a study, a person).
    """
    dataset = prepared.material.dataset
    return prepared.config.dataset or (dataset.name if dataset.public else UNNAMED)


def release_title(title: str | None, prepared: Prepared) -> str:
    """The title of a release: the owner's, or one by the name for others."""
    return title or f"Synthetic stand-in for {name_for_others(prepared)}"


def report_title(folder: RunFolder, prepared: Prepared) -> str:
    """The title of both reports: that of the release where its owner gave one."""
    kept = folder.read_json(RELEASE) if (folder.path / RELEASE).exists() else {}
    given = kept.get("title")
    return str(given) if given else f"{prepared.method.info.name} on {name_for_others(prepared)}"
