"""A toy method of each shape that is coming: one file and one line, and everything works."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import datasets
import numpy as np
import pytest
import torch

from tests import drawing
from tests.contract.toys import evolution
from tests.contract.toys.hidden_attribute import HiddenAttribute, MeanPictures
from tests.privacy.team.teams import run_processes
from tests.workplace import Workplace
from understudy.audit.check_method import check_method
from understudy.data.schema import Schema
from understudy.methods.registry import get_method
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import ledger_plan, spent_uses
from understudy.release.verify import verify
from understudy.run.folder import RunFolder

LONGEST = 79
"""Lines of a whole example."""


@dataclass(frozen=True)
class Toy:
    """One toy: where it lives, what its run is asked for, and how often it asks the door."""

    target: str
    words: tuple[str, ...]
    blocks: int
    in_a_team: bool

    @property
    def file(self) -> Path:
        return Path(__file__).parents[2] / (self.target.partition(":")[0].replace(".", "/") + ".py")


HERE = "tests.contract.toys"
TOYS = {
    "soft labels": Toy(f"{HERE}.soft_labels:SoftLabels", ("--public", "canvas=open"), 2, True),
    "evolution": Toy(f"{HERE}.evolution:Evolution", (), 10, True),
    "shard game": Toy(f"{HERE}.shard_game:ShardGame", ("--set", "steps=120"), 3, False),
    "hidden attribute": Toy(
        f"{HERE}.hidden_attribute:HiddenAttribute", ("--hide", "eyes"), 2, True
    ),
}
EACH = pytest.mark.parametrize("toy", TOYS.values(), ids=list(TOYS))


@pytest.fixture(autouse=True)
def _not_under_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def words_of(toy: Toy) -> tuple[str, ...]:
    common = ("--label", "kind", "--epsilon", "5", "--delta", "1e-3", "--device", "cpu")
    return ("synthesize", "photos", "--method", toy.target, *toy.words, *common, "-o", "out")


def furnished(place: Workplace) -> Workplace:
    drawing.metadata_folder(place / "photos", count=80)
    drawing.class_folder(place / "open", count=12, seed=5)
    return place


def check_release(place: Workplace) -> None:
    """Whole, within its plan, with its charge entered once."""
    entries = read_ledger(place / "runs/out/ledger.jsonl")
    plan = ledger_plan(entries)
    assert spent_uses(entries) == {m.name: m.uses for m in plan.mechanisms}
    found = verify(place / "out")
    assert found.ok, found.problems
    assert len(place.book("enter")) == 1


@EACH
def test_it_is_one_short_file_that_imports_from_one_place(toy: Toy) -> None:
    text = toy.file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    ours = [line for line in text.splitlines() if "import" in line and "understudy" in line]
    assert ours == ["import understudy.authoring as us"]


@pytest.mark.slow
@EACH
def test_it_passes_every_check(toy: Toy) -> None:
    """Replay and bare machine among them."""
    results = check_method(get_method(toy.target))
    assert {r.name: r.problem for r in results if not r.passed} == {}
    assert len(results) == 9


@EACH
def test_it_makes_a_release_that_verifies(workplace: Workplace, toy: Toy) -> None:
    place = furnished(workplace)
    place.run(*words_of(toy)).succeeded()
    check_release(place)


def test_soft_labels_of_a_fixed_set_reach_the_recipient(workplace: Workplace) -> None:
    place = furnished(workplace)
    place.run(*words_of(TOYS["soft labels"]), "--set", "size=15").succeeded()
    loaded = datasets.load_dataset(str(place / "out"), split="train")
    rows = np.array(loaded["kind"])
    assert rows.shape == (15, 2)
    assert np.allclose(rows.sum(axis=1), 1, atol=1e-5)
    assert 0 < rows.min() < rows.max() < 1
    claim = verify(place / "out").claim
    assert claim is not None
    assert claim.records.soft == ("kind",)
    assert dict(claim.parts) == {"teacher": 51, "statistics": 17}
    (canvas,) = claim.public_inputs
    assert canvas.name == "open"


def test_what_is_hidden_is_in_no_column(workplace: Workplace) -> None:
    place = furnished(workplace)
    place.run(*words_of(TOYS["hidden attribute"])).succeeded()
    assert set(RunFolder(place / "runs/out").load_samples().schema.names) == {"kind"}
    place.run(*words_of(TOYS["hidden attribute"])[:-2], "-o", "two", "--hide", "iris").refused(
        "iris", "eyes"
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--hide", "kind"), ("--hide names 'kind'", "the label to learn")),
        (("--hide", "eyes", "--keep", "eyes"), ("--hide and --keep both name 'eyes'",)),
    ],
)
def test_what_is_learnt_or_kept_cannot_be_hidden(
    workplace: Workplace, more: tuple[str, ...], words: tuple[str, ...]
) -> None:
    place = furnished(workplace)
    place.run(*words_of(TOYS["hidden attribute"])[:-2], *more).refused(*words)
    assert not (place / "runs").exists()
    assert place.book("enter") == []


class ShowsAll(HiddenAttribute):
    """It makes a column of what it should hide."""

    def fit(self, config, parts, plan, public, context):  # type: ignore[no-untyped-def]
        made, like = super().fit(config, parts, plan, public, context), parts["kept"]
        means = {a.name: torch.zeros(len(a.classes), *like.shape) for a in like.schema.attributes}
        schema = Schema(like.schema.attributes, like.schema.label)
        return MeanPictures(schema, {**means, **made.means})


def test_a_method_that_shows_what_it_should_hide_fails_a_check() -> None:
    found = {r.name: r.problem for r in check_method(ShowsAll())}
    problem = found["makes the records that it says"]
    assert problem == "its records show what is to be hidden: hidden."


def die_at(place: Workplace, words: Sequence[str], commits: int) -> None:
    """In a process of its own: dead as soon as so many blocks are committed."""
    commit, done = Journal.commit, [0]

    def committed(*given: object) -> None:
        commit(*given)  # type: ignore[arg-type]
        done[0] += 1
        if done[0] == commits:
            os._exit(9)

    with mock.patch.object(Journal, "commit", committed):
        os._exit(place.run(*words).code)


def killed_at(place: Workplace, words: Sequence[str], commits: int) -> None:
    child = multiprocessing.get_context("fork").Process(target=die_at, args=(place, words, commits))
    child.start()
    child.join()
    assert child.exitcode == 9


def outputs(place: Workplace) -> dict[str, bytes]:
    kept = sorted((place / "runs/out/checkpoints").glob("block-*/outputs.safetensors"))
    return {path.parent.name: path.read_bytes() for path in kept}


@EACH
def test_killed_after_any_block_it_goes_on(workplace: Workplace, toy: Toy) -> None:
    """No block is done twice: what was released before is there as it was."""
    place, words = furnished(workplace), words_of(toy)
    before: dict[str, bytes] = {}
    for number in range(toy.blocks - 1):
        killed_at(place, [*words, "--resume"] if number else words, 1)
        now = outputs(place)
        assert {name: now[name] for name in before} == before
        before = now
    place.run(*words, *(("--resume",) if toy.blocks > 1 else ())).succeeded()
    assert {name: outputs(place)[name] for name in before} == before
    kinds = [entry.kind for entry in read_ledger(place / "runs/out/ledger.jsonl")]
    assert "void" not in kinds
    assert kinds.count("commit") == toy.blocks
    check_release(place)


def test_ten_histograms_killed_after_the_sixth_go_on_with_the_seventh(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sixth generation was not made yet: it is made of the sixth histogram, as it was."""
    place, words = furnished(workplace), words_of(TOYS["evolution"])
    killed_at(place, words, 6)
    made: list[int] = []
    real = evolution.next_generation

    def noted(*given: object) -> object:
        made.append(int(given[4]))  # type: ignore[call-overload]
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(evolution, "next_generation", noted)
    place.run(*words, "--resume").succeeded()
    assert made == [5, 6, 7, 8, 9]
    check_release(place)


def _in_a_team(place: Workplace, words: tuple[str, ...]) -> int:
    told = place.run(*words)
    (place / f"said-{os.environ['RANK']}").write_text(told.out + told.err)
    return told.code


@EACH
def test_two_processes(workplace: Workplace, toy: Toy) -> None:
    """They fit it together, or it is refused by name before anything is spent."""
    place = furnished(workplace)
    codes = run_processes(2, _in_a_team, place, words_of(toy))
    if toy.in_a_team:
        assert codes == [0, 0], (place / "said-0").read_text()
        check_release(place)
        return
    assert 0 not in codes
    assert "is fitted by one process" in (place / "said-0").read_text()
    assert spent_uses(read_ledger(place / "runs/out/ledger.jsonl")) == {}
