"""A mechanism in a package of its own: found, priced, run, audited, and verified without it."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workplace import Workplace
from understudy.audit.probes import problems_of
from understudy.errors import PrivacyError, UserError
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.plan.events import Gaussian
from understudy.privacy.plan.mechanisms import (
    Mechanism,
    mechanism_class,
    mechanism_from_json,
    mechanism_kinds,
    mechanism_to_json,
)
from understudy.privacy.plan.mechanisms.foreign import ForeignMechanism
from understudy.privacy.plan.mechanisms.registry import MechanismRegistry
from understudy.privacy.plan.plan import Budget, Plan
from understudy.release.claim import Claim
from understudy.release.verify import verify

SOURCE = Path(__file__).parent / "third_party_mechanism" / "tree_sum"
POINTS = """[understudy.mechanisms]
tree-sum = tree_sum.mechanism:TreeSum
[understudy.methods]
tree-mean = tree_sum.method:TreeMean
"""


def put(site: Path, points: str = POINTS) -> None:
    """The package as an installer leaves it."""
    shutil.copytree(SOURCE, site / "tree_sum", ignore=shutil.ignore_patterns("__pycache__"))
    info = site / "tree_sum-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tree-sum\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)


@contextmanager
def on_path(site: Path) -> Iterator[None]:
    """While this lasts, the package is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        importlib.invalidate_caches()
        try:
            yield
        finally:
            for name in [n for n in sys.modules if n.partition(".")[0] == "tree_sum"]:
                del sys.modules[name]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    put(folder)
    return folder


def example() -> Mechanism:
    return mechanism_class("tree-sum").example()


def test_it_is_found_by_its_kind_and_priced(site: Path) -> None:
    with on_path(site):
        assert "tree-sum" in MechanismRegistry.discover().names()
        assert example().events(1) == (Gaussian(1.0),)
        plan = Budget(1.0, 1e-5).calibrate(
            lambda sigma: (mechanism_class("tree-sum")("a", 6, 1.0, sigma),)  # type: ignore[call-arg]
        )
        assert 0.99 <= plan.epsilon <= 1.0
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    with pytest.raises(UserError, match="no mechanism 'tree-sum'"):
        mechanism_class("tree-sum")


def test_its_probe_measures_it(site: Path) -> None:
    with on_path(site):
        assert problems_of(example()) == []


BROKEN = {
    "half its sensitivity": ("return math.sqrt(3)", "return math.sqrt(3) / 2", "one unit moves"),
    "a map that is not linear": ("torch.cat([total,", "torch.cat([total.abs(),", "no linear map"),
    "a lower charge": (
        "    def check(self)",
        "    def events(self, uses):\n"
        "        from understudy.privacy.plan.events import Gaussian\n"
        "        return (Gaussian(2 * self.sigma, uses),) if uses else ()\n\n"
        "    def check(self)",
        "is charged epsilon",
    ),
}


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_broken_twin_is_caught_by_the_probe(site: Path, mistake: str) -> None:
    old, new, words = BROKEN[mistake]
    source = (site / "tree_sum" / "mechanism.py").read_text()
    assert source.count(old) == 1
    (site / "tree_sum" / "mechanism.py").write_text(source.replace(old, new))
    with on_path(site):
        assert words in " ".join(problems_of(example()))


@pytest.mark.slow
def test_check_method_measures_it(site: Path, workplace: Workplace) -> None:
    with on_path(site):
        workplace.run("check-method", "tree-mean").succeeded()
    old, new, words = BROKEN["half its sensitivity"]
    source = (site / "tree_sum" / "mechanism.py").read_text()
    (site / "tree_sum" / "mechanism.py").write_text(source.replace(old, new))
    with on_path(site):
        said = workplace.run("check-method", "tree-mean")
    assert said.code != 0
    assert "FAIL  mechanisms of its own" in said.out
    assert words in said.out


def test_it_makes_a_release_that_is_verified_with_the_package_and_without(
    site: Path, workplace: Workplace
) -> None:
    words = ("synthesize", "digits", "--method", "tree-mean", "--epsilon", "1", "-o", "out")
    with on_path(site):
        shown = workplace.run(*words, "--dry-run").succeeded().out
        assert "A sum of 64 numbers and its pairs" in shown
        workplace.run(*words, "--samples", "20").succeeded()
        installed = verify(workplace / "out")
    absent = verify(workplace / "out")
    assert (installed.problems, absent.problems) == ((), ())
    assert installed.cost == absent.cost
    assert "package tree-sum" not in " ".join(installed.notes)
    assert "of package tree-sum, which is not installed here" in " ".join(absent.notes)
    (entry, *_) = read_ledger(workplace / "out" / "ledger.jsonl")
    (written,) = entry.body["plan"]["mechanisms"]
    assert written["shipped_by"] == "package tree-sum"
    assert [event["kind"] for event in written["events"]] == ["gaussian"]


def test_its_claim_says_whose_word_it_rests_on(site: Path, workplace: Workplace) -> None:
    words = ("--method", "tree-mean", "--epsilon", "1", "--samples", "20", "-o", "out")
    with on_path(site):
        workplace.run("synthesize", "digits", *words).succeeded()
    path = workplace / "out" / "claim.json"
    claim = Claim.from_bytes(path.read_bytes())
    said = " ".join(claim.statement)
    assert "'means' ('tree-sum' of package tree-sum)" in said
    assert "is the word of those packages" in said
    rows = tuple(replace(row, shipped_by=None) for row in claim.spending)
    path.write_bytes(replace(claim, spending=rows).to_bytes())
    problems = " ".join(verify(workplace / "out").problems)
    assert "is not what the ledger gives for 'means'" in problems


@pytest.fixture
def written(site: Path) -> dict[str, object]:
    with on_path(site):
        return mechanism_to_json(example())


def test_without_the_package_it_is_read_and_written_as_it_stands(
    written: dict[str, object],
) -> None:
    found = mechanism_from_json(written)
    assert isinstance(found, ForeignMechanism)
    assert found.events(1) == (Gaussian(1.0),)
    assert found.noise_multiplier == 1.0
    assert mechanism_to_json(found) == written


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"events": [{"kind": "magic"}]},
            "package tree-sum cannot be priced: unknown event 'magic'",
        ),
        ({"events": []}, "no events that have a price"),
        ({"events": [{"kind": "gaussian", "sigma": "1", "count": 1}]}, "cannot be priced"),
        ({"events": None}, "must state"),
        ({"planned_uses": 0}, "planned_uses"),
        ({"shipped_by": None}, "must state"),
        ({"name": 3}, "must be words"),
        ({"leaves": [1]}, "number or a word"),
    ],
)
def test_what_the_plan_states_of_it_is_doubted(
    written: dict[str, object], change: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        mechanism_from_json({**written, **change})


def test_without_stated_events_it_is_refused_with_the_name_of_its_package(
    written: dict[str, object],
) -> None:
    del written["events"]
    with pytest.raises(UserError, match="'tree-sum' of package tree-sum, which is not installed"):
        mechanism_from_json(written)


@pytest.mark.parametrize(
    "change",
    [
        {"events": [{"kind": "gaussian", "sigma": 2.0, "count": 1}]},
        {"planned_uses": 2},
        {"shipped_by": "package other"},
        {"sigma": 0.5},
    ],
)
def test_where_it_is_installed_the_stated_events_must_be_its_own(
    site: Path, written: dict[str, object], change: dict[str, object]
) -> None:
    with on_path(site), pytest.raises(UserError, match="states other uses, events or origin"):
        mechanism_from_json({**written, **change})


def test_no_package_can_take_the_name_of_a_built_in(tmp_path: Path) -> None:
    put(tmp_path, "[understudy.mechanisms]\nnoisy-sum = tree_sum.mechanism:TreeSum\n")
    with on_path(tmp_path):
        with pytest.raises(UserError, match="same name as a built-in mechanism"):
            MechanismRegistry.discover()
        assert mechanism_class("noisy-sum").__module__.startswith("understudy.")


def test_a_kind_must_be_the_class_s_own(tmp_path: Path) -> None:
    put(tmp_path, "[understudy.mechanisms]\nother-sum = tree_sum.mechanism:TreeSum\n")
    with on_path(tmp_path), pytest.raises(UserError, match="calls itself 'tree-sum'"):
        mechanism_class("other-sum")


def test_a_class_that_is_not_registered_cannot_be_planned(site: Path) -> None:
    with on_path(site):
        planned = mechanism_class("tree-sum")
        twin = type("Twin", (planned,), {"multiple": 0.1})
        with pytest.raises(PrivacyError, match="not the mechanism registered as 'tree-sum'"):
            mechanism_to_json(twin("a", 6, 1.0, 1.0))


def test_built_in_mechanisms_state_nothing_more_than_before() -> None:
    for kind in mechanism_kinds():
        found = mechanism_to_json(mechanism_class(kind).example())
        assert not {"events", "planned_uses", "shipped_by"} & set(found)
        assert mechanism_from_json(found) == mechanism_class(kind).example()
