"""What a run calls its data where others read it."""

from __future__ import annotations

from understudy.data.load import Dataset
from understudy.run.config import RunConfig
from understudy.run.folder import RunFolder
from understudy.run.prepare import Prepared

UNNAMED = "private data"

RELEASE = "release.json"
"""The file of a run folder that says where the release went, with its digest and given title."""


def name_for_others(config: RunConfig, dataset: Dataset) -> str:
    """The name of the data where others read it: the owner's word, or their name in the catalog.

    Guarantee: the name of a private folder or file leaves with nothing, for it may say what nobody
    else is to know (a hospital, a study, a person).
    """
    return config.dataset or (dataset.name if dataset.public else UNNAMED)


def _name(prepared: Prepared) -> str:
    return name_for_others(prepared.config, prepared.material.dataset)


def release_title(title: str | None, prepared: Prepared) -> str:
    """The title of a release: the owner's, or one by the name for others."""
    return title or f"Synthetic stand-in for {_name(prepared)}"


def report_title(folder: RunFolder, prepared: Prepared) -> str:
    """The title of both reports: that of the release where its owner gave one."""
    kept = folder.read_json(RELEASE) if (folder.path / RELEASE).exists() else {}
    given = kept.get("title")
    return str(given) if given else f"{prepared.method.info.name} on {_name(prepared)}"
