"""After sampling, private records are out of reach: a release is the same whatever they are."""

from __future__ import annotations

import json
import shutil

import pytest

from tests import drawing
from tests.workplace import SMALL_GAN, SMALL_MERF, Outcome, Workplace

DECLARED = ("--count", "40", "--classes", "cross,round,square")
RUNS = {
    "one-shot": (*SMALL_MERF[:-2], "--epsilon", "1", *DECLARED),
    "DP-SGD": (*SMALL_GAN[:-2], "--set", "steps=3", "--epsilon", "1", *DECLARED),
    "empirical split": (*SMALL_MERF, "--epsilon", "1", *DECLARED, "--holdout", "0.5"),
}
"""Without `--samples` where so many are made as records were declared."""


def released(place: Workplace) -> dict[str, bytes]:
    """Every byte of the release and of the shareable report, by file."""
    files = {p: p for p in (place / "out").rglob("*") if p.is_file()}
    found = {str(p.relative_to(place.folder)): p.read_bytes() for p in files}
    return found | {"report": (place / "runs/out/report-public.html").read_bytes()}


def synthesize(place: Workplace, kind: str, *more: str) -> Outcome:
    return place.run("synthesize", "photos", *RUNS[kind], "-o", "out", *more).succeeded()


def forget_what_was_published(place: Workplace) -> None:
    """As a run that was killed right after its fit."""
    shutil.rmtree(place / "out")
    shutil.rmtree(place / "runs/out/samples")
    for name in ("release.json", "claim.json", "report.html", "report-public.html"):
        (place / "runs/out" / name).unlink()


def other_records(place: Workplace, count: int) -> None:
    """Other pictures, another number of them, all of one class but one, and copies among them."""
    shutil.rmtree(place / "photos")
    drawing.class_folder(place / "photos", count, ("cross", "round", "square"), seed=99)
    pictures = sorted((place / "photos" / "cross").iterdir())
    for number in range(7):
        shutil.copy(pictures[0], place / "photos" / "cross" / f"copy-{number}.png")
    for left_out in sorted((place / "photos" / "round").iterdir())[1:]:
        left_out.unlink()


@pytest.mark.parametrize("kind", RUNS)
def test_a_release_is_the_same_byte_for_byte_on_other_records(
    workplace: Workplace, kind: str
) -> None:
    drawing.class_folder(workplace / "photos", 40, ("cross", "round", "square"))
    synthesize(workplace, kind)
    first = released(workplace)
    for count in (31, 90):
        forget_what_was_published(workplace)
        other_records(workplace, count)
        synthesize(workplace, kind, "--resume")
        again = released(workplace)
        assert again.keys() == first.keys()
        assert [name for name in first if again[name] != first[name]] == []


def test_another_run_s_release_is_not_taken_for_this_one(workplace: Workplace) -> None:
    """It is sound by itself; but its claim, and what it cost, are those of another plan."""
    drawing.class_folder(workplace / "photos", 40, ("cross", "round", "square"))
    synthesize(workplace, "one-shot")
    (workplace / "out").rename(workplace / "first")
    (workplace / "runs/out").rename(workplace / "runs/first")
    synthesize(workplace, "one-shot")
    forget_what_was_published(workplace)
    (workplace / "first").rename(workplace / "out")
    words = ("synthesize", "photos", *RUNS["one-shot"], "-o", "out", "--resume")
    told = workplace.run(*words)
    assert told.code == 2, "taken for this run's"
    assert "is not this run's release" in told.err


def test_the_owner_s_report_does_follow_the_records(workplace: Workplace) -> None:
    """The other side: what may depend on them is told apart by this very comparison."""
    drawing.class_folder(workplace / "photos", 40, ("cross", "round", "square"))
    synthesize(workplace, "one-shot")
    first = (workplace / "runs/out/report.html").read_bytes()
    forget_what_was_published(workplace)
    other_records(workplace, 90)
    synthesize(workplace, "one-shot", "--resume")
    assert (workplace / "runs/out/report.html").read_bytes() != first


def test_a_release_holds_no_hash_of_the_owner_s_ledger(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", 40, ("cross", "round", "square"))
    synthesize(workplace, "DP-SGD")
    own = (workplace / "runs/out/ledger.jsonl").read_text().splitlines()
    told = b"".join(released(workplace).values())
    assert not [line for line in own if json.loads(line)["hash"].encode() in told]
    assert b"disagree" not in released(workplace)["report"], "it was made of the owner's ledger"
    claim = json.loads((workplace / "out/claim.json").read_text())
    head = json.loads((workplace / "out/ledger.jsonl").read_text().splitlines()[-1])["hash"]
    assert claim["ledger"]["head"] == head


FRAGILE = """
from dataclasses import replace

import torch

from understudy.methods.dp_merf import DPMerf

MARK = torch.tensor([1.0, 0.0] * 4)


class Fragile(DPMerf):
    info = replace(DPMerf.info, name="fragile")

    def fit(self, config, parts, plan, public, context):
        parts["train"].map(self.look)
        return super().fit(config, parts, plan, public, context)

    @staticmethod
    def look(features):
        if (features[:, 0, 0] == MARK).all(dim=1).any():
            raise ZeroDivisionError("a picture with a mark")
        return features
"""


@pytest.fixture
def fragile(workplace: Workplace) -> tuple[str, ...]:
    """A run whose callback fails on marked pictures, ten of forty."""
    module = f"fragile_{workplace.folder.name.replace('-', '_')}"  # one process, many modules
    (workplace / f"{module}.py").write_text(FRAGILE)
    pixels, codes = drawing.bars(40, 3)
    pixels[:10, 0, 0] = [255, 0] * 4
    for number, (image, code) in enumerate(zip(pixels, codes, strict=True)):
        folder = workplace / "photos" / ("cross", "round", "square")[code]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{'marked' if number < 10 else 'plain'}-{number}.png").write_bytes(
            drawing.png(image)
        )
    settings = [word for word in SMALL_MERF if word not in ("--method", "dp-merf")]
    words = ("--method", f"{module}.py:Fragile", *settings, "--epsilon", "1")
    return ("synthesize", "photos", *words, *DECLARED, "-o", "out")


def take_marked_away(place: Workplace) -> None:
    for picture in (place / "photos").rglob("marked-*.png"):
        picture.unlink()


def test_a_run_whose_callback_failed_is_charged_and_never_goes_on(
    workplace: Workplace, fragile: tuple[str, ...]
) -> None:
    workplace.run(*fragile).refused("a callback failed on private records", "start a new run")
    assert not (workplace / "out").exists()
    assert len(workplace.book("enter")) == 1
    ledger = (workplace / "runs/out/ledger.jsonl").read_bytes()
    for _ in range(2):
        workplace.run(*fragile, "--resume").refused("is over", "never resumed or released")
    take_marked_away(workplace)
    workplace.run(*fragile, "--resume").refused("is over", "never resumed or released")
    assert (workplace / "runs/out/ledger.jsonl").read_bytes() == ledger
    assert not (workplace / "out").exists()
    workplace.run("evaluate", "--run", "runs/out").refused("holds no samples", "start a new run")
    total = workplace.run("spent", "photos", "--json").succeeded().json()
    assert total["runs"] == 1


def test_the_same_method_goes_through_without_such_records(
    workplace: Workplace, fragile: tuple[str, ...]
) -> None:
    take_marked_away(workplace)
    workplace.run(*fragile).succeeded()
    assert (workplace / "out/claim.json").exists()
