"""The public contract tests: what every method passes, ours and a third party's.

`understudy check-method pkg:Class` runs them. They find mistakes, not malice: a method
that depends on records other than through the door's outputs fails the replay, a loss
that mixes records is refused by the door, a plan that is exceeded never runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.audit.probes import problems_of
from understudy.audit.rehearsal import Rehearsal, made_up_facts, rehearse
from understudy.errors import UserError
from understudy.methods.config import (
    ResolvedConfig,
    config_to_json,
    describe_config,
    resolve_config,
)
from understudy.methods.contract import Method, Synthesizer
from understudy.privacy.accounting.accountants import price
from understudy.privacy.door.replay_tape import Tape
from understudy.privacy.plan.exact_or_float import choose_noise, spend_with
from understudy.privacy.plan.mechanisms import mechanism_kinds
from understudy.privacy.plan.plan import Budget, Plan
from understudy.progress import Progress, Silent

_FEW, _MANY = 60, 600
"""Realised counts of the replay: so far apart that the door calls back more often for one."""

_KINDS = ("central", "local", "empirical")


class ContractError(Exception):
    """A check found that the contract does not hold; the message says how."""


@dataclass(frozen=True)
class CheckResult:
    """One contract check: its name, and what was wrong, if anything."""

    name: str
    problem: str | None

    @property
    def passed(self) -> bool:
        return self.problem is None


def check_method(
    method: Method, changes: Sequence[str] = (), progress: Progress | None = None
) -> list[CheckResult]:
    """Run every contract check; later checks are left out once the method cannot fit.

    `changes` are `key=value` settings on top of the method's preset for dataset `check`.
    """
    examination = _Examination(method, changes)
    results: list[CheckResult] = []
    checks = examination.checks()
    with (progress or Silent()).task(f"checking {method.info.name}", len(checks)) as bar:
        for name, check, needed in checks:
            bar.note(name)
            problem = _problem(check)
            results.append(CheckResult(name, problem))
            bar.advance()
            if problem is not None and needed:
                break
    return results


def _problem(check: Callable[[], None]) -> str | None:
    try:
        check()
    except (ContractError, UserError) as failure:
        return str(failure)
    except Exception as error:  # noqa: BLE001 - a third party's code may raise anything
        return f"{type(error).__name__}: {error}"
    return None


class _Examination:
    """The checks on one method, sharing one plan and one rehearsal."""

    def __init__(self, method: Method, changes: Sequence[str]) -> None:
        self._method = method
        self._changes = changes
        self._resolved: ResolvedConfig
        self._plan: Plan
        self._first: Rehearsal

    def checks(self) -> list[tuple[str, Callable[[], None], bool]]:
        """Name, check, and whether the rest needs it."""
        return [
            ("says what it is", self._check_info, False),
            ("settings are frozen and documented", self._check_config, True),
            ("plans what it spends; more noise costs less", self._check_spend, True),
            ("mechanisms of its own move and cost what they say", self._check_mechanisms, True),
            ("fits within its plan", self._check_fit, True),
            ("samples as asked", self._check_samples, False),
            ("saves and loads", self._check_save, False),
            ("depends on records only through the door (replay)", self._check_replay, False),
            ("needs only torch, numpy and safetensors", self._check_bare, False),
        ]

    def _check_info(self) -> None:
        info = self._method.info
        for field in ("name", "summary", "paper", "family", "mechanism"):
            _require(bool(getattr(info, field)), f"info.{field} is empty.")
        _require(info.claim in _KINDS, f"info.claim must be one of {', '.join(_KINDS)}.")
        _require(bool(info.parts), "info.parts names no part of the data.")

    def _check_config(self) -> None:
        config_type = self._method.Config
        frozen = is_dataclass(config_type) and config_type.__dataclass_params__.frozen  # type: ignore[attr-defined]
        _require(frozen, "Config must be a frozen dataclass.")
        describe_config(config_type)
        self._resolved = resolve_config(self._method, "check", changes=self._changes)

    def _check_spend(self) -> None:
        facts = made_up_facts(self._method.info.parts)
        spend = self._method.spend(self._resolved.config, facts)
        spend = spend_with(spend, choose_noise(spend, None, self._method.info.name))
        budget = Budget(10.0, 1e-5)
        if self._method.info.claim == "empirical":
            self._plan = Budget.empirical().calibrate(spend)
            return
        self._plan = budget.calibrate(spend)
        little, much = (_cost(spend(sigma)) for sigma in (1.0, 4.0))
        _require(much < little, "spend(sigma) does not get cheaper with more noise.")

    def _check_mechanisms(self) -> None:
        """Those that ship with Understudy are measured by its own tests."""
        for mechanism in self._plan.mechanisms:
            if mechanism.kind not in mechanism_kinds():
                problems = problems_of(mechanism)
                _require(not problems, "; ".join(problems))

    def _check_fit(self) -> None:
        self._first = rehearse(self._method, self._resolved.config, self._plan, count=_FEW, seed=1)
        for mechanism in self._plan.mechanisms:
            used = self._first.spent.get(mechanism.name, 0)
            _require(used > 0, f"mechanism {mechanism.name!r} is planned and never used.")

    def _check_samples(self) -> None:
        synthesizer = self._synthesizer()
        facts = made_up_facts(self._method.info.parts)
        records = synthesizer.sample(7, seed=3)
        _require(len(records) == 7, f"sample(7) gave {len(records)} records.")
        _require(records.schema == facts.schema, "the samples have another schema.")
        _require(records.shape == facts.shape, "the samples have another shape.")
        wanted = np.array([2, 0, 1, 1])
        given = synthesizer.sample(4, labels=wanted, seed=3)
        _require(bool((given.labels == wanted).all()), "sample(labels=...) ignores the labels.")
        again = synthesizer.sample(7, seed=3)
        _require(bool((again.features == records.features).all()), "sampling ignores its seed.")

    def _check_save(self) -> None:
        synthesizer = self._synthesizer()
        with tempfile.TemporaryDirectory() as name:
            synthesizer.save(Path(name))
            loaded = type(synthesizer).load(Path(name))
        before, after = synthesizer.sample(5, seed=11), loaded.sample(5, seed=11)
        same = bool((before.features == after.features).all())
        _require(same, "a loaded synthesizer samples other records than the saved one.")

    def _check_replay(self) -> None:
        """The same door outputs on other records, and another number of them."""
        method, config, plan = type(self._method)(), self._resolved.config, self._plan
        first = rehearse(method, config, plan, count=_FEW, seed=1)
        tape = Tape.replay(first.tape)
        second = rehearse(type(self._method)(), config, plan, count=_MANY, seed=1001, tape=tape)
        _require(tape.finished, "it asked the door for fewer outputs than before.")
        for name, trace in first.traces.items():
            same = second.traces[name] == trace
            _require(same, f"{name} differ on other records though the door gave the same.")

    def _check_bare(self) -> None:
        """Fit and sample in a process where heavier packages cannot be imported."""
        job = {
            "method": f"{type(self._method).__module__}:{type(self._method).__qualname__}",
            "config": config_to_json(self._resolved.config),
            "plan": self._plan.to_json(),
        }
        done = subprocess.run(
            [sys.executable, "-m", "understudy.audit.bare"],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        _require(done.returncode == 0, f"on a machine with only these: {last[0]}")

    def _synthesizer(self) -> Synthesizer:
        result = self._first.result
        if not isinstance(result, Synthesizer):
            raise ContractError("fit returned no Synthesizer (sample, save, load).")
        return result


def _cost(mechanisms: Sequence[Any]) -> float:
    return price([e for m in mechanisms for e in m.events(m.uses)], 1e-5).epsilon


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ContractError(problem)
