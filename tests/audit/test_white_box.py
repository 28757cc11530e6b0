"""White-box audits of every method, tiny: the claim holds, and broken twins are rejected."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import understudy
from tests.audit import bad_methods as bad
from tests.privacy.stretched import StretchedSum
from understudy.audit import run_audit as run_audit_module
from understudy.audit.canaries import Planting, blank_records, plant
from understudy.audit.estimate import AuditPlan
from understudy.audit.observer import Observer, Release, log_ratio
from understudy.audit.rehearsal import (
    DECLARED,
    made_up_facts,
    made_up_public,
    made_up_records,
)
from understudy.audit.run_audit import AuditResult, Subject, Surroundings, run_audit
from understudy.audit.white_box import AuditDoor, AuditSummation
from understudy.errors import PrivacyError, UserError
from understudy.methods.config import resolve_config
from understudy.methods.contract import Method
from understudy.methods.registry import get_method, method_names
from understudy.nets.per_example import choice as choice_module
from understudy.nets.per_example.expanded import ExpandedBackend
from understudy.nets.per_example.vmap import VmapBackend
from understudy.privacy.door.door import Door
from understudy.privacy.dpsgd import engine as engine_module
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.exact_or_float import choose_noise, spend_with
from understudy.privacy.plan.mechanisms import NoisySum
from understudy.privacy.plan.plan import Budget, Plan
from understudy.privacy.sums import clipping
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums
from understudy.progress import Silent
from understudy.run.context import RunContext

CPU = torch.device("cpu")
AUDIT = AuditPlan(canaries=180, guesses=90, delta=1e-5)
SMALL = AuditPlan(canaries=60, guesses=30, delta=1e-5)


@contextlib.contextmanager
def journal(folder: Path, plan: Plan, *, audited: bool = True) -> Iterator[Journal]:
    folder.mkdir(exist_ok=True)
    opened = Journal.create(folder, plan, {"audited": audited})
    try:
        yield opened
    finally:
        opened.release_lock()


def audited(
    method: Method,
    folder: Path,
    audit: AuditPlan = AUDIT,
    *,
    epsilon: float = 1.0,
    noise_factor: float = 1.0,
    people: int | None = None,
    noise: str | None = None,
) -> AuditResult:
    config = resolve_config(method, "check").config
    facts = made_up_facts(method.info.parts)
    spend = method.spend(config, facts)
    arithmetic = choose_noise(spend, noise, method.info.name)
    plan = Budget(epsilon, 1e-5).calibrate(spend_with(spend, arithmetic))
    parts = {part: made_up_records(DECLARED, i) for i, part in enumerate(method.info.parts)}
    if people is not None:
        names = np.array([f"person {i % people}" for i in range(DECLARED)])
        parts = {part: replace(records, units=names) for part, records in parts.items()}
    subject = Subject(method, config, parts, facts.counts, made_up_public(method))
    with journal(folder, plan) as opened:
        where = Surroundings(
            opened, CPU, Silent(), b"key" * 11, lambda door: RunContext(door, Silent(), CPU, 0)
        )
        return run_audit(subject, plan, audit, where, noise_factor=noise_factor)


def central_methods() -> list[str]:
    return [name for name in method_names() if get_method(name).info.claim == "central"]


@pytest.mark.parametrize("name", central_methods())
def test_every_method_holds_its_claim(name: str, tmp_path: Path) -> None:
    """At 95% one honest audit in twenty may exceed the claim; 1 - 1e-6 keeps the test steady."""
    sure = AuditPlan(180, 90, 1e-5, confidence=1 - 1e-6)
    result = audited(get_method(name), tmp_path, sure)
    assert not result.contradicted
    assert result.lower_bound <= result.claim <= 1.0
    assert result.could_contradict


@pytest.mark.parametrize("name", central_methods())
def test_every_methods_twin_without_noise_is_rejected(name: str, tmp_path: Path) -> None:
    result = audited(get_method(name), tmp_path, noise_factor=0.0)
    assert result.contradicted
    assert result.lower_bound > result.claim
    assert "contradicted" in result.verdict()


@pytest.mark.parametrize("name", central_methods())
@pytest.mark.parametrize("noise_factor", [0.0, 1.0])
def test_canaries_stand_among_units_of_many_records(
    name: str, tmp_path: Path, noise_factor: float
) -> None:
    sure = AuditPlan(180, 90, 1e-5, confidence=0.95 if noise_factor == 0 else 1 - 1e-6)
    result = audited(get_method(name), tmp_path, sure, noise_factor=noise_factor, people=9)
    assert result.contradicted is (noise_factor == 0)


def wide_clip(
    vectors: torch.Tensor, clip: float, honest: object = clipping.clip_rows
) -> tuple[torch.Tensor, torch.Tensor]:
    assert callable(honest)
    bounded, norms = honest(vectors, 20 * clip)
    return bounded, norms


def test_a_clip_that_does_not_hold_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _repeatable(monkeypatch)
    assert not audited(bad.Honest(), tmp_path / "right", SMALL, noise="float").contradicted
    monkeypatch.setattr(clipping, "clip_rows", wide_clip)
    assert audited(bad.Honest(), tmp_path / "wrong", SMALL, noise="float").contradicted


def test_a_clip_of_training_that_does_not_hold_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canaries pass through the sum that the engine makes for everybody."""
    _repeatable(monkeypatch)
    monkeypatch.setattr(engine_module, "clip_into", _twenty_times_the_clip)
    many = AuditPlan(1200, 480, 1e-5)
    assert audited(get_method("dp-gan"), tmp_path, many).contradicted


@pytest.mark.parametrize("backend", [ExpandedBackend, VmapBackend])
@pytest.mark.parametrize("name", ["dp-gan", "dpdm"])
def test_canaries_come_as_everybodys_gradients_do(
    name: str, backend: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound that gradients really meet does not hold, and every other does."""
    _repeatable(monkeypatch)
    monkeypatch.setattr(choice_module, "_makers", lambda *_: [backend])
    many = AuditPlan(1200, 480, 1e-5)
    sure = replace(many, confidence=1 - 1e-6)
    assert not audited(get_method(name), tmp_path / "right", sure).contradicted
    monkeypatch.setattr(engine_module, "clip_into", _twenty_times_the_clip)
    assert audited(get_method(name), tmp_path / "wrong", many).contradicted


def _twenty_times_the_clip(
    total: torch.Tensor, vectors: Pieces, used: torch.Tensor, clip: float, sums: PieceSums
) -> torch.Tensor:
    return clipping.clip_into(total, vectors, used, 20 * clip, sums)


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_either_arithmetic_is_heard(noise: str, tmp_path: Path) -> None:
    for factor in (0.0, 1.0):
        sure = AuditPlan(60, 30, 1e-5, confidence=0.95 if factor == 0 else 1 - 1e-6)
        result = audited(
            bad.Honest(), tmp_path / str(factor), sure, noise_factor=factor, noise=noise
        )
        assert result.contradicted is (factor == 0)


def test_sampling_at_a_higher_rate_than_planned_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody joins every step, and the plan charges for a sample."""

    def everybody(
        self: NoiseSource, count: int, rate: float, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        del self, rate
        return torch.ones(count, dtype=torch.bool, device=device)

    _repeatable(monkeypatch)
    monkeypatch.setattr(NoiseSource, "bernoulli", everybody)
    many = AuditPlan(1200, 480, 1e-5)
    assert audited(get_method("dp-gan"), tmp_path, many).contradicted


def _repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same coins and noise each time: a test must not fail once in ten thousand runs."""
    monkeypatch.setattr(run_audit_module, "NoiseSource", lambda: NoiseSource.insecure(1))
    monkeypatch.setattr(
        run_audit_module, "toss", lambda count: np.random.default_rng(1).random(count) < 0.5
    )


def test_an_ordinary_run_cannot_have_canaries(tmp_path: Path) -> None:
    plan = Budget(1.0, 1e-5).calibrate(
        bad.Honest().spend(bad.Settings(), made_up_facts(("train",)))
    )
    with (
        journal(tmp_path, plan, audited=False) as opened,
        pytest.raises(PrivacyError, match="run that is audited"),
    ):
        AuditDoor(opened, NoiseSource(), device=CPU, progress=Silent(), shard_key=b"")


def test_more_canaries_than_coordinates_are_refused_with_the_number_that_fits(
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match=r"too many.*use at most 64"):
        audited(bad.Honest(), tmp_path, AuditPlan(100, 40, 1e-5))


def test_shards_and_revealed_records_are_refused(tmp_path: Path) -> None:
    plan = Budget(1.0, 1e-5).calibrate(
        bad.Honest().spend(bad.Settings(), made_up_facts(("train",)))
    )
    with journal(tmp_path, plan) as opened:
        observer = Observer(5, 0)
        door = AuditDoor(
            opened, NoiseSource(), device=CPU, progress=Silent(), shard_key=b"", observer=observer
        )
        handle = door.planted_handles(
            {"train": made_up_records(9, 0)}, {"train": 9}, "train", _planting()
        )["train"]
        assert isinstance(handle._summation, AuditSummation)
        with pytest.raises(UserError, match="--black-box"):
            handle.ensemble(3, lambda _: torch.nn.Identity())
        with pytest.raises(UserError, match="--black-box"):
            handle.reveal("because")
        assert handle.map(lambda x: x * 2)._summation is handle._summation


def test_without_an_observer_handles_are_ordinary(tmp_path: Path) -> None:
    plan = Budget(1.0, 1e-5).calibrate(
        bad.Honest().spend(bad.Settings(), made_up_facts(("train",)))
    )
    with journal(tmp_path, plan) as opened:
        door = AuditDoor(opened, NoiseSource(), device=CPU, progress=Silent(), shard_key=b"")
        assert isinstance(door, Door)
        handles = door.planted_handles({}, {"train": 9}, "train", _planting())
        assert not isinstance(handles["train"]._summation, AuditSummation)


def _planting() -> Planting:
    records = made_up_records(9, 0)
    return plant(records, blank_records(records, 5), np.array([True, False, True, True, False]))


RELEASE = Release("sum", 1.0, 2.0, 0.5, 4.0)


def output_with(observer: Observer, others: torch.Tensor, present: list[int]) -> torch.Tensor:
    """What a door without noise gives out when these canaries joined."""
    total = clipping.ClippedSum(RELEASE.clip, len(others), CPU, single=True)
    numbers = np.array(present)
    if observer.expect(others, RELEASE):
        total.add(observer.voices(numbers, len(others), RELEASE), numbers)
    return ((others + total.finish()) / RELEASE.scale).float()


def test_a_canary_adds_exactly_the_clip_on_its_own_coordinate() -> None:
    others = torch.linspace(0, 1, 10, dtype=torch.float64)
    added = output_with(Observer(6, 0), others, [1, 4]) * RELEASE.scale - others
    assert sorted(added.tolist()) == pytest.approx([0.0] * 8 + [2.0] * 2, abs=1e-6)


def test_the_observer_finds_a_canary_without_noise() -> None:
    observer = Observer(6, 0)
    output = output_with(observer, torch.rand(10, dtype=torch.float64), [1, 4])
    assert observer.through(output) is output
    assert observer.scores == pytest.approx(
        np.where(np.isin(np.arange(6), [1, 4]), 2.0, -2.0), abs=1e-5
    )
    observer.require_evidence()


def test_a_sum_that_is_too_narrow_is_left_alone_if_others_come() -> None:
    narrow = torch.rand(3, dtype=torch.float64)
    assert not Observer(6, 0, mechanisms=2).expect(narrow, RELEASE)
    with pytest.raises(UserError, match="use at most 3"):
        Observer(6, 0).expect(narrow, RELEASE)


def test_other_outputs_are_no_evidence() -> None:
    observer = Observer(6, 0)
    observer.through(torch.ones(10))
    assert not observer.scores.any()
    with pytest.raises(UserError, match="too many"):
        observer.require_evidence()


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_log_ratios_are_those_of_the_two_densities(rate: float) -> None:
    values, sigma = np.linspace(-3, 4, 9), 0.8

    def density(mean: float) -> np.ndarray:
        return np.exp(-((values - mean) ** 2) / (2 * sigma**2))

    wanted = np.log((1 - rate) * density(0) + rate * density(1)) - np.log(density(0))
    assert log_ratio(values, rate, sigma) == pytest.approx(wanted)


def test_only_audits_can_reach_the_door_with_canaries() -> None:
    root = Path(understudy.__file__).parent
    users = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"audit\.(white_box|run_audit|observer) import", path.read_text())
    }
    assert users == {"audit/white_box.py", "audit/run_audit.py", "run/audit.py"}


def test_canaries_stand_in_plain_sums_only() -> None:
    summation = AuditSummation(Observer(4, 0), np.arange(2), torch.device("cpu"))
    summation.allow_sum(NoisySum.example())
    with pytest.raises(UserError, match="what stretched-sum makes of a sum; audit it with"):
        summation.allow_sum(StretchedSum.example())
