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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from understudy.audit.probes import problems_of
from understudy.audit.rehearsal import Rehearsal, made_up_facts, rehearse
from understudy.data.records import Records
from understudy.data.weights import given_weights
from understudy.data.weights_file import WeightsFile
from understudy.errors import UserError
from understudy.methods.config import (
    ResolvedConfig,
    config_to_json,
    describe_config,
    resolve_config,
)
from understudy.methods.contract import (
    Facts,
    Fitted,
    FixedSet,
    FixedSize,
    Method,
    RecordMap,
    Sampler,
    require_size,
)
from understudy.methods.needs import require_packages
from understudy.privacy.door.replay_tape import Tape
from understudy.privacy.plan.calibration import cost_of
from understudy.privacy.plan.exact_or_float import choose_noise, spend_with
from understudy.privacy.plan.mechanisms import mechanism_kinds
from understudy.privacy.plan.plan import Budget, Plan
from understudy.progress import Progress, Silent

_FEW, _MANY = 60, 600
"""Realised counts of the replay: so far apart that the door calls back more often for one."""


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
    method: Method,
    changes: Sequence[str] = (),
    progress: Progress | None = None,
    weights: Mapping[str, WeightsFile] = MappingProxyType({}),
) -> list[CheckResult]:
    """Run every contract check; later checks are left out once the method cannot fit.

    `changes` are `key=value` settings on top of the method's preset for dataset `check`. `weights`
    are public weights by name, beside those that it takes where none are named; public records are
    made up.
    """
    usual = {
        entry.name: given_weights(entry.default)
        for entry in method.info.public_weights
        if entry.default is not None and entry.name not in weights
    }
    examination = _Examination(method, changes, {**usual, **weights})
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

    def __init__(
        self, method: Method, changes: Sequence[str], weights: Mapping[str, WeightsFile]
    ) -> None:
        self._method = method
        self._weights = weights
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
            ("makes the records that it says", self._check_records, False),
            ("saves and loads", self._check_save, False),
            ("depends on records only through the door (replay)", self._check_replay, False),
            ("needs only torch, numpy and safetensors", self._check_bare, False),
        ]

    def _check_info(self) -> None:
        info = self._method.info
        for field in ("name", "summary", "paper", "family", "mechanism"):
            _require(bool(getattr(info, field)), f"info.{field} is empty.")
        require_packages(info)
        require_size(self._method)

    def _check_config(self) -> None:
        config_type = self._method.Config
        frozen = is_dataclass(config_type) and config_type.__dataclass_params__.frozen  # type: ignore[attr-defined]
        _require(frozen, "Config must be a frozen dataclass.")
        describe_config(config_type)
        self._resolved = resolve_config(self._method, "check", changes=self._changes)

    def _check_spend(self) -> None:
        spend = self._method.spend(self._resolved.config, self._facts())
        spend = spend_with(spend, choose_noise(spend, None, self._method.info.name))
        empirical = self._method.info.claim == "empirical"
        budget = Budget.empirical() if empirical else Budget(10.0, 1e-5)
        self._plan = budget.calibrate(spend)
        self._method.info.check_planned(self._plan.mechanisms)
        if empirical:
            return
        little, much = (_cost(spend(sigma)) for sigma in (1.0, 4.0))
        _require(much < little, "spend(sigma) does not get cheaper with more noise.")

    def _check_mechanisms(self) -> None:
        """Those that ship with Understudy are measured by its own tests."""
        for mechanism in self._plan.mechanisms:
            if mechanism.kind not in mechanism_kinds():
                problems = problems_of(mechanism)
                _require(not problems, "; ".join(problems))

    def _check_fit(self) -> None:
        self._first = self._rehearsed(self._method, _FEW, 1)
        for mechanism in self._plan.mechanisms:
            used = self._first.spent.get(mechanism.name, 0)
            _require(used > 0, f"mechanism {mechanism.name!r} is planned and never used.")

    def _check_records(self) -> None:
        """What `fit` returned is one of three kinds; each makes records as it says."""
        result, info = self._first.result, self._method.info
        _require(
            isinstance(result, RecordMap) == (info.maps is not None),
            "info.maps names a part if, and only if, fit returns a RecordMap (apply, save, load).",
        )
        if isinstance(result, RecordMap):
            _require(info.claim != "central", "a RecordMap has no central claim; see info.claim.")
            _require_images(self._first.records, self._facts())
        elif isinstance(result, FixedSet):
            self._check_fixed_set(result.records())
        elif isinstance(result, Sampler):
            self._check_sampler(result)
        else:
            raise ContractError(
                "fit returned no Sampler (sample, save, load), FixedSet (records, save, load) or "
                "RecordMap (apply, save, load)."
            )

    def _check_fixed_set(self, records: Records) -> None:
        if not isinstance(self._method, FixedSize):
            raise ContractError("a method that makes a fixed set says how large by size().")
        size = self._method.size(self._resolved.config, self._facts())
        _require(len(records) == size, f"size() says {size} records and fit made {len(records)}.")
        _require_form(records, self._facts())

    def _check_sampler(self, sampler: Sampler) -> None:
        records = sampler.sample(7, seed=3)
        _require(len(records) == 7, f"sample(7) gave {len(records)} records.")
        _require_form(records, self._facts())
        rng = np.random.default_rng(0)
        for attribute in records.schema.attributes:
            wanted = rng.integers(0, len(attribute.classes), 9)
            given = sampler.sample(9, {attribute.name: wanted}, seed=3)
            same = bool((given.attributes[attribute.name] == wanted).all())
            _require(same, f"sample() ignores the conditions on {attribute.name!r}.")
        again = sampler.sample(7, seed=3)
        _require(bool((again.features == records.features).all()), "sampling ignores its seed.")

    def _check_save(self) -> None:
        result = self._first.result
        with tempfile.TemporaryDirectory() as name:
            result.save(Path(name))
            loaded: Fitted = self._method.Output.load(Path(name))  # type: ignore[attr-defined]
        if isinstance(result, RecordMap):
            return  # the replay compares what it saves; applying it again would need a door
        same = _same(_few_records(result), _few_records(loaded))
        _require(same, "what is loaded makes other records than what was saved.")

    def _check_replay(self) -> None:
        """The same door outputs on other records, and another number of them."""
        first = self._rehearsed(type(self._method)(), _FEW, 1, mapped=False)
        tape = Tape.replay(first.tape)
        second = self._rehearsed(type(self._method)(), _MANY, 1001, tape, mapped=False)
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
            "needs": list(self._method.info.needs),
            "weights": {
                name: {**file.to_json(), "path": str(file.path.resolve())}
                for name, file in self._weights.items()
            },
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

    def _rehearsed(
        self,
        method: Method,
        count: int,
        seed: int,
        tape: Tape | None = None,
        *,
        mapped: bool = True,
    ) -> Rehearsal:
        return rehearse(
            method,
            self._resolved.config,
            self._plan,
            count=count,
            seed=seed,
            tape=tape,
            weights=self._weights,
            mapped=mapped,
        )

    def _facts(self) -> Facts:
        return made_up_facts(self._method.info.parts, self._method.info.hides)


def _few_records(result: Fitted) -> Records:
    if isinstance(result, Sampler):
        return result.sample(5, seed=11)
    if isinstance(result, FixedSet):
        return result.records()
    raise ContractError(f"{type(result).__name__} makes no records.")


def _same(one: Records, other: Records) -> bool:
    columns = [(one.attributes[name], other.attributes[name]) for name in one.schema.names]
    pairs = [(one.features, other.features), *columns]
    return one.schema == other.schema and all(np.array_equal(a, b) for a, b in pairs)


def _require_form(records: Records, facts: Facts) -> None:
    """Attributes that a method does not synthesise may be missing, the label may not."""
    label = facts.schema.label_attribute
    _require(records.shape == facts.shape, "its records have another shape.")
    _require(records.schema.label == label.name, f"its records have no label {label.name!r}.")
    _require_hidden(records, facts)
    for attribute in records.schema.attributes:
        same = attribute in facts.schema.attributes
        _require(same, f"attribute {attribute.name!r} of its records is none of the private ones.")


def _require_images(mapped: Records | None, facts: Facts) -> None:
    """What a map lets out is released as it is, so it must be what a release can hold."""
    _require(
        mapped is not None and mapped.is_images and mapped.shape[0] in (1, 3),
        "what apply() lets out must be images (us.Images, uint8); LocalNoise gives numbers, "
        "which apply() must scale and round.",
    )
    _require_hidden(mapped, facts)


def _require_hidden(records: Records | None, facts: Facts) -> None:
    names = () if records is None else records.schema.names
    shown = set(names) & set(facts.schema.sensitive)
    _require(not shown, f"its records show what is to be hidden: {', '.join(sorted(shown))}.")


def _cost(mechanisms: Sequence[Any]) -> float:
    return cost_of(tuple(e for m in mechanisms for e in m.events(m.uses)), 1e-5).epsilon


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ContractError(problem)
