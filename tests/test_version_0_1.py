"""What version 0.1.0 wrote is read as it was meant: releases, runs, evidence, encoders, filters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import understudy
from tests.workplace import Workplace
from understudy.bench.evidence.store import read_store
from understudy.encoders.file import read_encoder
from understudy.errors import UserError
from understudy.federated.collection_check import verify_any
from understudy.filters.filter_file import load_filter
from understudy.methods.contract import Sampler
from understudy.methods.registry import get_method
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.ledger.ledger import read_ledger
from understudy.progress import Silent, Task
from understudy.run.config import read_config
from understudy.run.folder import RunFolder
from understudy.run.sampling import load_fitted

OLD = Path(__file__).parent / "fixtures" / "version_0_1"
DIGESTS = {
    "release-dp-merf": "0bfb99300cc37751b9dd931410cd1609d1b16c098efbaa41a9d0fda20b15fd35",
    "release-dp-gan": "ea675e6e88a5585403d1fa24b8db5f9355ab1f1c16b45d5dc3e4b6773781f3ee",
}
COLLECTION = "9e206fa564ca4bf888b9a34e682180693e785aa11b9afa853b39ca1edf7b8257"
ENCODER = "16f2423bd07326055ffe22668c857178ae6cd84648e64c92c0e341f493cbbb0b"
PLANS = json.loads((OLD / "plans.json").read_text())


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy that may be worked in."""
    return Path(shutil.copytree(OLD, tmp_path / "old"))


@pytest.mark.parametrize(("name", "digest"), DIGESTS.items())
def test_a_release_verifies_as_before(name: str, digest: str) -> None:
    found = understudy.verify(OLD / name, digest=digest)
    assert found.verdict == "consistent and authenticated"
    records, claim = understudy.load_release(OLD / name)
    assert len(records) == 20
    assert claim.kind == "central"


def test_a_release_that_was_changed_does_not_verify(old: Path) -> None:
    ledger = old / "release-dp-gan" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"uses":50', b'"uses":40'))
    assert not understudy.verify(old / "release-dp-gan").ok


@pytest.mark.parametrize("name", ["dp-merf", "dp-gan", "dpdm"])
def test_a_synthesizer_samples_what_it_sampled(name: str) -> None:
    run = RunFolder(OLD / "runs" / name)
    fitted = load_fitted(run, get_method(name))
    assert isinstance(fitted, Sampler)
    again = fitted.sample(20, seed=0)
    then = run.load_samples()
    assert np.array_equal(again.labels, then.labels)
    apart = np.abs(again.features.astype(int) - then.features.astype(int))
    assert apart.max() <= 1  # another processor may round a pixel the other way


def test_a_finished_run_is_evaluated(old: Path, workplace: Workplace) -> None:
    protocol = understudy.load_protocol(workplace.quick_protocol())
    found = understudy.evaluate_run(old / "runs" / "dp-gan", protocol, home=old / "home")
    assert found.rows
    assert (old / "runs" / "dp-gan" / "report.html").exists()


class StopsAfterABlock(Silent):
    """Somebody who presses Ctrl-C when the first block of a resumed run is committed."""

    told = 0

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        del description, total
        yield self

    def advance(self, steps: int = 1) -> None:
        self.told += 1
        if steps and self.told > 1:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        del text


@pytest.fixture
def unfinished(old: Path, tmp_path: Path) -> RunFolder:
    """A run that a kill left with an open block, in a book that knows its place."""
    run = RunFolder(old / "runs" / "unfinished")
    plan, _ = run.read_plan()
    facts = {"run folder": str(run.path.resolve())}
    Book.open("digits", tmp_path / "home").enter(plan.ident, plan, facts=facts)
    return run


def test_a_run_that_was_not_finished_goes_on(unfinished: RunFolder, tmp_path: Path) -> None:
    """Its open block is void and begun anew, whatever version reserved it."""
    before = unfinished.ledger.read_bytes()
    config, shown = read_config(unfinished.path), StopsAfterABlock()
    with pytest.raises(KeyboardInterrupt):
        understudy.synthesize(
            config,
            tmp_path / "out",
            run_folder=unfinished.path,
            resume=True,
            home=tmp_path / "home",
            progress=shown,
        )
    assert unfinished.ledger.read_bytes().startswith(before)
    kinds = [entry.kind for entry in read_ledger(unfinished.ledger)[before.count(b"\n") :]]
    assert kinds == ["void", "reserve", "commit"]


def test_a_run_that_cannot_go_on_says_why(unfinished: RunFolder, tmp_path: Path) -> None:
    """As one on an owner's data, of which version 0.1 assumed less to be public."""
    plan, run = unfinished.read_plan()
    unfinished.write_plan(plan, run | {"assumed_public": ["that all is well"]})
    before = unfinished.ledger.read_bytes()
    with pytest.raises(UserError, match=r"another version of Understudy.*assumed_public differ"):
        understudy.synthesize(
            read_config(unfinished.path),
            tmp_path / "out",
            run_folder=unfinished.path,
            resume=True,
            home=tmp_path / "home",
        )
    assert unfinished.ledger.read_bytes() == before


def test_its_account_book_adds_up() -> None:
    book = Book.open("digits", OLD / "home")
    assert [run.purpose for run in book.runs()].count("release") == 6
    assert sum(bool(run.released) for run in book.runs()) == 5
    assert len(book.split_key()) == 32


def test_an_encoder_a_filter_and_a_collection() -> None:
    encoder = read_encoder(OLD / "digits.safetensors", ENCODER)
    assert encoder.schema.names == ("label",)
    assert load_filter(OLD / "my.filter", ENCODER)
    found = verify_any(OLD / "collection", digest=COLLECTION, encoder=OLD / "digits.safetensors")
    assert found.verdict == "consistent and authenticated"


def test_evidence(tmp_path: Path) -> None:
    name = json.loads((OLD / "evidence.json").read_text())["name"]
    shutil.copy(OLD / "evidence.json", tmp_path / f"{name}.json")
    (found,) = read_store(tmp_path).of_kind("run")
    assert found.parsed()["claim"]["kind"] == "central"


@pytest.mark.parametrize(
    ("method", "epsilon"), [(method, epsilon) for method in PLANS for epsilon in PLANS[method]]
)
def test_plans_cost_what_they_did(method: str, epsilon: str) -> None:
    how = {"epsilon": float(epsilon), "time": None, "device_kind": "cpu"}
    config = understudy.RunConfig("digits", method, **how)  # type: ignore[arg-type]
    plan = understudy.preview(config).plan.to_json()
    assert plan["epsilon"] == pytest.approx(PLANS[method][epsilon]["epsilon"], abs=1e-9)
    assert plan["mechanisms"] == PLANS[method][epsilon]["mechanisms"]
