"""Records, ledgers and written releases for the tests of this room."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.release.forge import (
    Story,
    long_story,
    make_claim,
    make_records,
    make_story,
    release_of,
    released_story,
)
from understudy.data.records import Images
from understudy.release.bundle import ReleaseInfo
from understudy.release.claim import Claim
from understudy.release.signing import make_keys


@pytest.fixture
def story() -> Story:
    """A ledger as it is released."""
    return released_story(make_story())


@pytest.fixture
def records() -> Images:
    return make_records()


@pytest.fixture
def claim(story: Story, records: Images) -> Claim:
    return make_claim(story, records)


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The owner's pair: private key file, public key file."""
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder / "owner.pem", folder / "owner.pub")
    return folder / "owner.pem", folder / "owner.pub"


@pytest.fixture(scope="session")
def written(
    tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]
) -> tuple[ReleaseInfo, ReleaseInfo]:
    """An unsigned and a signed release; never changed, only copied."""
    folder = tmp_path_factory.mktemp("written")
    records = make_records(soft=True, extra=True)
    return (
        release_of(long_story(), records, folder / "plain"),
        release_of(long_story(), records, folder / "signed", signing_key=keys[0]),
    )


@pytest.fixture
def plain(written: tuple[ReleaseInfo, ReleaseInfo], tmp_path: Path) -> ReleaseInfo:
    """A copy of the unsigned release, to be spoilt."""
    return _copy(written[0], tmp_path / "plain")


@pytest.fixture
def signed(written: tuple[ReleaseInfo, ReleaseInfo], tmp_path: Path) -> ReleaseInfo:
    """A copy of the signed release, to be spoilt."""
    return _copy(written[1], tmp_path / "signed")


def _copy(info: ReleaseInfo, to: Path) -> ReleaseInfo:
    shutil.copytree(info.folder, to)
    return ReleaseInfo(to, info.digest, info.shards, info.signed)
