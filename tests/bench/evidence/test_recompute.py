"""Epsilon follows from an evidence file alone, and a claim that says otherwise is shown."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

from tests.bench.samples import claim, one_sum, run_evidence
from tests.privacy.stretched import StretchedSum, install
from tests.workplace import Workplace
from understudy.bench.evidence.evidence import (
    FORMAT,
    check_content,
    write_all_evidence,
    write_run_evidence,
)
from understudy.bench.evidence.index import EvidenceIndex, NewFile
from understudy.bench.evidence.joining import join_evidence
from understudy.bench.evidence.json_schema import evidence_schema
from understudy.bench.evidence.recompute import claim_problem, recomputed
from understudy.bench.evidence.seal import seal_of, sealed_bytes
from understudy.bench.evidence.store import read_store
from understudy.errors import UserError
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EnsembleGradients,
    EnsembleVotes,
    LocalLabels,
    LocalRelease,
    Mechanism,
    NoisyHistogram,
    NoisySum,
    Reveal,
    mechanism_class,
    mechanism_from_json,
    mechanism_kinds,
)

OLD = Path(__file__).parents[2] / "fixtures" / "version_0_1" / "evidence.json"
SGD = DPSGD("training", steps=700, rate=0.02, clip=0.7, sigma=1.3, multiplicity=4)
PLANS: tuple[tuple[Mechanism, ...], ...] = (
    (SGD,),
    (SGD, NoisyHistogram("labels", bins=10, sigma=30.0, noise="exact")),
    (NoisySum("embedding", clip=1.0, sigma=4.0, part="pretrain", noise="exact"),),
    (EnsembleVotes("votes", shards=50, queries=200, sigma=60.0),),
    (EnsembleGradients("gradients", shards=50, queries=100, clip=1.0, sigma=40.0),),
    (LocalRelease("sent", radius=2.0, sigma=3.0), LocalLabels("labels", epsilon=0.5)),
)
LABELS = {"kind": "local-labels", "name": "labels", "part": "train", "epsilon": 0.5}


def forge(folder: Path, content: dict[str, Any]) -> None:
    """Seal and list a file without the check that this package makes before it lists one."""
    EvidenceIndex(folder).add(
        lambda _: [NewFile(content["name"], "run", sealed_bytes(unsealed(content)))]
    )


def unsealed(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name != "seal"}


def written(folder: Path, mechanisms: tuple[Mechanism, ...] = (SGD,)) -> dict[str, Any]:
    path = write_run_evidence(folder, run_evidence(claim=claim(*mechanisms)))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("mechanisms", PLANS, ids=lambda plan: plan[0].kind)
def test_mechanisms_come_back_whole_and_cost_what_is_claimed(
    tmp_path: Path, mechanisms: tuple[Mechanism, ...]
) -> None:
    found = written(tmp_path, mechanisms)["claim"]
    assert tuple(mechanism_from_json(m) for m in found["mechanisms"]) == mechanisms
    assert recomputed(found).epsilon == pytest.approx(found["epsilon"], rel=1e-9)
    assert recomputed({k: found[k] for k in ("mechanisms", "delta")}).kind == found["kind"]


def test_somebody_with_another_program_finds_the_same_epsilon(tmp_path: Path) -> None:
    """From sigma, rate and steps of the file, by the accountant package alone."""
    found = written(tmp_path)["claim"]
    (sgd,) = found["mechanisms"]
    step = dp_accounting.PoissonSampledDpEvent(
        sgd["rate"], dp_accounting.GaussianDpEvent(sgd["sigma"])
    )
    whole = PLDAccountant().compose(step, sgd["steps"]).get_epsilon(found["delta"])
    assert found["epsilon"] == pytest.approx(whole, rel=2e-3)


LIES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"epsilon": 1.0}, "says epsilon 1, but its mechanisms cost"),
    ({"delta": 1e-4}, "but its mechanisms cost"),
    ({"kind": "local"}, r"its claim is local \(add-or-remove one unit\), but .* make it central"),
    ({"relation": "replace-one, per record"}, "but its mechanisms make it central"),
    ({"accountant": "a guess"}, "names the accountant 'a guess'"),
    ({"mechanisms": []}, "but its mechanisms cost 0"),
    ({"mechanisms": [{"kind": "magic", "name": "a", "part": "train"}]}, "unknown mechanism"),
    ({"mechanisms": claim(SGD, one_sum(1.0))["mechanisms"]}, "but its mechanisms cost"),
    ({"mechanisms": [*claim(SGD)["mechanisms"], LABELS]}, "have no price: .*cannot be composed"),
)


@pytest.mark.parametrize(("changes", "words"), LIES)
def test_a_claim_that_its_mechanisms_do_not_bear_out_is_not_written(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        write_run_evidence(tmp_path, run_evidence(claim=claim(SGD, **changes)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("field", "value"), [("sigma", 2.6), ("rate", 0.01), ("steps", 350), ("sigma", 1.29)]
)
def test_a_mechanism_that_was_made_to_look_cheaper_shows(
    tmp_path: Path, field: str, value: float
) -> None:
    content = written(tmp_path)
    content["claim"]["mechanisms"][0][field] = value
    problem = claim_problem(content)
    assert problem is not None
    assert "but its mechanisms cost" in problem


def test_a_lie_under_a_whole_index_shows_once_it_is_recomputed(
    tmp_path: Path, workplace: Workplace
) -> None:
    honest, there = written(tmp_path / "honest"), tmp_path / "there"
    forge(there, {**honest, "claim": {**honest["claim"], "epsilon": 0.5}})
    write_run_evidence(there, run_evidence(seed=1))
    assert [file.trust for file in read_store(there).files] == ["trusted", "trusted"]
    store = read_store(there, recompute=True)
    assert [file.trust for file in store.files] == ["wrong claim", "trusted"]
    name, cost = honest["name"], honest["claim"]["epsilon"]
    said = (
        f"untrusted: {name}.json (wrong claim: its claim says epsilon 0.5, "
        f"but its mechanisms cost {cost:.6g})"
    )
    assert store.warnings() == [said]
    words = ("bench", "table", "--evidence", str(there), "--no-published")
    shown = workplace.run(*words, "--recompute").succeeded().out
    assert said in " ".join(shown.split())
    assert "dp-merf?" in shown
    assert "untrusted" not in workplace.run(*words).succeeded().out
    with pytest.raises(UserError, match=f"not trusted: {name}"):
        join_evidence(there, tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_a_file_that_no_index_vouches_for_is_recomputed_unasked(tmp_path: Path) -> None:
    content = written(tmp_path / "honest")
    content["claim"]["epsilon"] = 0.5
    (tmp_path / f"{content['name']}.json").write_bytes(sealed_bytes(unsealed(content)))
    (file,) = read_store(tmp_path).files
    assert (file.trust, file.usable) == ("wrong claim", True)


def test_an_empirical_claim_promises_nothing(tmp_path: Path) -> None:
    """Also of noise that would bound something, where the owner asked for no bound."""
    path = write_run_evidence(tmp_path, run_evidence(claim=claim(Reveal("look", "to see"))))
    assert json.loads(path.read_text())["claim"]["epsilon"] is None
    unstated = claim(SGD, kind="empirical", epsilon=None, accountant="none: no bound is stated")
    write_run_evidence(tmp_path, run_evidence(seed=1, claim=unstated))
    with pytest.raises(UserError, match=r"field claim\.epsilon must be a number, not None"):
        write_run_evidence(tmp_path, run_evidence(seed=2, claim=claim(SGD, epsilon=None)))


def test_format_2_is_still_read_and_said_to_lack_mechanisms(tmp_path: Path) -> None:
    old = json.loads(OLD.read_text())
    assert old["format"] == "understudy-evidence/2"
    (tmp_path / f"{old['name']}.json").write_bytes(OLD.read_bytes())
    assert [file.trust for file in read_store(tmp_path).files] == ["unlisted"]
    shutil.rmtree(tmp_path)
    forge(tmp_path, old)
    write_all_evidence(tmp_path, [run_evidence()])
    assert read_store(tmp_path).warnings() == []
    store = read_store(tmp_path, recompute=True)
    assert [file.trust for file in store.files] == ["trusted", "trusted"]
    assert store.not_recomputed == (old["name"],)
    assert store.warnings() == [
        "not recomputed: 1 of the trusted files (format 2) hold no mechanisms"
    ]


def test_each_format_has_its_own_claim(tmp_path: Path) -> None:
    new, old = written(tmp_path), json.loads(OLD.read_text())
    assert new["format"] == FORMAT == "understudy-evidence/3"
    del new["claim"]["mechanisms"]
    with pytest.raises(UserError, match=r"field claim\.mechanisms is missing"):
        check_content({**new, "seal": seal_of(new)}, "it")
    old["claim"]["mechanisms"] = []
    with pytest.raises(UserError, match=r"field claim\.mechanisms is unknown"):
        check_content({**old, "seal": seal_of(old)}, "it")


def test_a_mechanism_of_another_package_is_recomputed_with_it_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        install(patch)
        content = written(tmp_path, (StretchedSum("a", clip=1.0, sigma=4.0),))
        assert claim_problem(content) is None
    assert claim_problem(content) is None
    content["claim"]["mechanisms"][0]["events"][0]["sigma"] = 8.0
    assert "but its mechanisms cost" in str(claim_problem(content))
    del content["claim"]["mechanisms"][0]["shipped_by"]
    with pytest.raises(UserError, match="shipped_by is missing"):
        check_content({**content, "seal": seal_of(content)}, "it")


def test_the_schema_knows_every_field_of_every_mechanism() -> None:
    known = {f.name for kind in mechanism_kinds() for f in fields(mechanism_class(kind))}  # type: ignore[arg-type]
    assert set(evidence_schema()["$defs"]["mechanism"]["properties"]) == {"kind", *known}
