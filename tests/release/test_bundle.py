import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
import yaml

from tests.release.forge import (
    DELTA,
    FACTS,
    Story,
    long_story,
    make_records,
    make_story,
    planned,
    planned_by,
    release_of,
    released_story,
)
from understudy.data.records import Images
from understudy.errors import PrivacyError, UserError
from understudy.privacy.plan.mechanisms import LocalRelease, NoisySum
from understudy.privacy.plan.plan import Budget
from understudy.release import bundle, files, parquet_tables
from understudy.release.build import build_claim, current_versions, summarise
from understudy.release.bundle import ReleaseInfo, write_release
from understudy.release.claim import Claim, Tuning
from understudy.release.facts import MethodFacts
from understudy.release.verify import verify


def test_release_has_its_files_and_no_other(plain: ReleaseInfo) -> None:
    found = sorted(p.relative_to(plain.folder).as_posix() for p in plain.folder.rglob("*.*"))
    assert found == [
        "README.md",
        "claim.json",
        "contact-sheet.png",
        "croissant.json",
        "data/train-00000-of-00001.parquet",
        "ledger.jsonl",
        "manifest.sha256",
    ]


def test_the_ledger_says_what_was_planned_and_no_more(tmp_path: Path) -> None:
    story = long_story()
    info = release_of(story, make_records(), tmp_path / "out")
    told = b"".join(released_story(story).lines())
    assert (info.folder / "ledger.jsonl").read_bytes() == told
    assert b"void" not in told


def test_a_calibrated_plan_makes_a_release(tmp_path: Path) -> None:
    """From a plan, with the facts that a run states, to a verified release."""
    plan = Budget(1.0, DELTA).calibrate(lambda sigma: [NoisySum("sum", 1.0, sigma)])
    records = make_records()
    claim = build_claim(
        plan,
        FACTS,
        tuning=Tuning(covered=True),
        records=summarise(records),
        versions=current_versions(),
    )
    info = write_release(
        tmp_path / "out",
        records=records,
        claim=claim,
        plan=plan,
        facts=FACTS,
        title="Digits",
    )
    assert 0.99 <= claim.epsilon <= 1.0
    assert claim.statement[0].startswith("Differentially private: epsilon 1.00, delta 1e-05")
    assert verify(info.folder, digest=info.digest).authenticated


def test_local_release_says_so_and_verifies(tmp_path: Path) -> None:
    story = planned(LocalRelease("leave", 1.0, 3.0)).block(0, "leave", 1).add("close")
    info = release_of(story, make_records(), tmp_path / "out")
    found = verify(info.folder)
    assert found.ok
    assert found.claim is not None
    assert found.claim.kind == "local"
    assert found.claim.relation == "replace-one, per record"
    assert found.claim.statement[0].startswith("Locally differentially private: epsilon 1.28")


def test_same_release_twice_has_the_same_digest(tmp_path: Path) -> None:
    story = make_story()
    one = release_of(story, make_records(), tmp_path / "one")
    other = release_of(story, make_records(), tmp_path / "other")
    assert one.digest == other.digest
    assert release_of(story, make_records(seed=1), tmp_path / "third").digest != one.digest


def test_front_matter_names_the_tables_and_leaves_the_licence_to_the_owner(
    story: Story, claim: Claim, records: Images, tmp_path: Path
) -> None:
    plan, facts = planned_by(story)

    def front(folder: Path, licence: str | None) -> dict[str, object]:
        write_release(
            folder,
            records=records,
            claim=claim,
            plan=plan,
            facts=facts,
            title='A: "title"',
            licence=licence,
        )
        found: dict[str, object] = yaml.safe_load(
            (folder / "README.md").read_text().split("---\n")[1]
        )
        return found

    bare = front(tmp_path / "bare", None)
    assert bare["pretty_name"] == 'A: "title"'
    assert bare["configs"] == [
        {
            "config_name": "default",
            "data_files": [{"split": "train", "path": "data/train-*.parquet"}],
        }
    ]
    assert "license" not in bare
    assert "differential-privacy" in bare["tags"]  # type: ignore[operator]
    assert front(tmp_path / "licensed", "cc-by-4.0")["license"] == "cc-by-4.0"


def test_existing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="already exists"):
        release_of(make_story(), make_records(), tmp_path / "out")


@pytest.mark.parametrize("title", ["", "  ", "two\nlines"])
def test_title_is_one_line(
    story: Story, claim: Claim, records: Images, tmp_path: Path, title: str
) -> None:
    plan, facts = planned_by(story)
    with pytest.raises(UserError, match="title must be"):
        write_release(
            tmp_path / "out", records=records, claim=claim, plan=plan, facts=facts, title=title
        )


def test_claim_must_be_about_these_records_and_this_ledger(
    story: Story, claim: Claim, records: Images, tmp_path: Path
) -> None:
    plan, facts = planned_by(story)
    other, _ = planned_by(long_story())
    own = {"plan": plan, "facts": facts}
    cheap = replace(claim, epsilon=claim.epsilon / 2)
    for arguments, words in (
        ({"records": make_records(9), "claim": claim, **own}, "other records"),
        (
            {"records": records, "claim": claim, "plan": other, "facts": facts},
            "the claim's ledger is",
        ),
        ({"records": records, "claim": cheap, **own}, "the claim says epsilon"),
    ):
        with pytest.raises((UserError, PrivacyError), match=words):
            write_release(tmp_path / "out", title="x", **arguments)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


class _SmallDisk:
    """A file that takes so many bytes over all files together, then none."""

    def __init__(self, file: BinaryIO, room: list[int]) -> None:
        self._file, self._room = file, room

    def write(self, data: bytes) -> int:
        self._room[0] -= len(data)
        if self._room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def fill_disk(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    left = [room]
    ordinary = files.new_file

    @contextmanager
    def new_file(path: Path) -> Iterator[BinaryIO]:
        with ordinary(path) as file:
            yield _SmallDisk(file, left)  # type: ignore[misc]

    monkeypatch.setattr(files, "new_file", new_file)
    monkeypatch.setattr(parquet_tables, "new_file", new_file)


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99])
def test_full_disk_leaves_nothing_and_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fraction: float
) -> None:
    """The disk fills in the tables, in their footer, or in any later file."""
    whole = release_of(make_story(), make_records(), tmp_path / "whole").folder
    size = sum(p.stat().st_size for p in whole.rglob("*") if p.is_file())
    fill_disk(monkeypatch, int(size * fraction))
    with pytest.raises(UserError, match=r"^the disk is full: .* was not written"):
        release_of(make_story(), make_records(), tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["whole"]


def test_the_small_disk_is_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_disk(monkeypatch, 1_000_000)
    assert verify(release_of(make_story(), make_records(), tmp_path / "out").folder).ok


def test_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "verify", interrupt)
    with pytest.raises(KeyboardInterrupt):
        release_of(make_story(), make_records(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_config_with_a_path_is_refused_at_the_gate(tmp_path: Path) -> None:
    facts = replace(FACTS, method=MethodFacts("m", "paper", {"weights": "/srv/models/x.pt"}))
    with pytest.raises(PrivacyError, match="path of the owner's machine"):
        release_of(make_story(facts), make_records(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
