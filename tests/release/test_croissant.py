import json
from dataclasses import replace
from pathlib import Path

import mlcroissant
import numpy as np
import pytest

from tests.release.forge import FACTS, make_records, make_story, planned_by, released_claim
from understudy.release.bundle import ReleaseInfo, write_release
from understudy.release.claim import Claim
from understudy.release.croissant import croissant_problems
from understudy.release.facts import InputFacts, PublicInput


@pytest.mark.parametrize("channels", [1, 3])
def test_mlcroissant_validates_and_reads_it(tmp_path: Path, channels: int) -> None:
    records = make_records(count=2400, channels=channels, soft=True, extra=True)
    story = make_story()
    plan, facts = planned_by(story)
    write_release(
        tmp_path / "out",
        records=records,
        claim=released_claim(story, records),
        plan=plan,
        facts=facts,
        title="Digits",
        shard_bytes=1,
    )
    dataset = mlcroissant.Dataset(tmp_path / "out" / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    assert dataset.metadata.name == "Digits"
    assert len(dataset.metadata.file_objects) == 3
    rows = [row for row, _ in zip(dataset.records("records"), range(3), strict=False)]
    for position, row in enumerate(rows):
        pixels = np.asarray(row["records/image"])
        pixels = pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)
        assert np.array_equal(pixels, records.features[position])
        assert row["records/digit"] == records.attributes["digit"][position]
        assert np.allclose(row["records/mood"], records.attributes["mood"][position])
    classes = list(dataset.records("digit-classes"))
    assert classes[1] == {"digit-classes/code": 1, "digit-classes/class": "one"}


def test_metadata_is_held_against_claim_and_tables(plain: ReleaseInfo) -> None:
    data = (plain.folder / "croissant.json").read_bytes()
    claim = Claim.from_bytes((plain.folder / "claim.json").read_bytes())
    document = json.loads(data)
    hashes = {plain.shards[0]: document["distribution"][0]["sha256"]}
    assert croissant_problems(data, claim, hashes) == []
    assert "hashes" in croissant_problems(data, claim, {plain.shards[0]: "0" * 64})[0]
    assert "cannot be understood" in croissant_problems(b"{}", claim, hashes)[0]


def test_nothing_in_the_metadata_is_free_but_title_and_licence(plain: ReleaseInfo) -> None:
    data = (plain.folder / "croissant.json").read_bytes()
    claim = Claim.from_bytes((plain.folder / "claim.json").read_bytes())
    hashes = {plain.shards[0]: json.loads(data)["distribution"][0]["sha256"]}

    def problems(old: str, new: str) -> list[str]:
        changed = data.replace(old.encode(), new.encode(), 1)
        assert changed != data
        return croissant_problems(changed, claim, hashes)

    assert problems("Digits, a stand-in", "Another title") == []
    for old, new in (
        ('"version": "1.0.0"', '"version": "2.0.0"'),
        ('"digit-classes/class": "one"', '"digit-classes/class": "seven"'),
        ("http://mlcommons.org/croissant/", "http://example.org/"),
        ('"sc:Integer"', '"sc:Text"'),
    ):
        assert problems(old, new) == ["croissant.json says something else than the claim gives."]


def test_public_inputs_are_what_it_is_based_on(tmp_path: Path) -> None:
    stated = InputFacts("shapes", "weights", "MIT", "ab" * 32)
    inputs = (PublicInput("faces", "drawn", stated), PublicInput("old", "of version 0.1"))
    records, story = make_records(count=5), make_story(replace(FACTS, public_inputs=inputs))
    plan, facts = planned_by(story)
    claim = released_claim(story, records)
    write_release(
        tmp_path / "out", records=records, claim=claim, plan=plan, facts=facts, title="Digits"
    )
    assert not mlcroissant.Dataset(tmp_path / "out" / "croissant.json").metadata.ctx.issues.errors
    (work,) = json.loads((tmp_path / "out" / "croissant.json").read_text())["isBasedOn"]
    assert (work["name"], work["license"], work["sha256"]) == ("faces", "MIT", "ab" * 32)
