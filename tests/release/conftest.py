"""Ledgers by the documented format, and releases made from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .forge import Story, make_claim, make_records, make_story
from understudy.data.records import Images
from understudy.release.bundle import ReleaseInfo, write_release
from understudy.release.claim import Claim


@pytest.fixture
def story() -> Story:
    return make_story()


@pytest.fixture
def records() -> Images:
    return make_records()


@pytest.fixture
def claim(story: Story, records: Images) -> Claim:
    return make_claim(story, records)


@pytest.fixture
def release(tmp_path: Path) -> Callable[..., ReleaseInfo]:
    """Write a release of a story and records; keyword arguments go to `write_release`."""

    def write(
        story: Story | None = None,
        records: Images | None = None,
        name: str = "release",
        signing_key: Path | None = None,
    ) -> ReleaseInfo:
        story = story or make_story()
        records = records if records is not None else make_records()
        ledger = story.write(tmp_path / f"{name}-ledger.jsonl")
        return write_release(
            tmp_path / name,
            records=records,
            claim=make_claim(story, records),
            ledger=ledger,
            title="Digits, a stand-in",
            signing_key=signing_key,
        )

    return write
