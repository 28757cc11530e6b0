"""The methods that a run could use, ranked by what is declared, with what each would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.methods.config import resolve_config
from understudy.methods.contract import Facts, Forecasting, Method
from understudy.methods.needs import require_packages
from understudy.methods.presets import find_presets
from understudy.methods.ranking import Ranking, ranking
from understudy.methods.registry import get_method, method_names
from understudy.methods.rules import Measures, find_rule
from understudy.run.choosing.fitting import Clock, Fit, Ladder, fit_into
from understudy.run.config import RunConfig


@dataclass(frozen=True)
class Form:
    """What is declared of the data of a run, or read off their form.

    dataset: the catalog name, where the data are public. count: units in all; learnt: of these,
    how many are to learn from.
    """

    dataset: str | None
    count: int
    learnt: int
    shape: tuple[int, ...]
    schema: Schema

    def facts(self, method: Method) -> Facts:
        counts = method.info.declared_counts(self.learnt)
        return Facts(self.count, counts, self.shape, self.schema)

    def measures(self, epsilon: float | None) -> Measures:
        return Measures.of(Facts(self.count, {"": self.learnt}, self.shape, self.schema), epsilon)


@dataclass(frozen=True)
class Candidate:
    """A method that could be used: with which settings, and what its run would take here.

    fit: None where nothing is known of its time, or it cannot be used. why_not: the reason.
    """

    name: str
    fit: Fit | None = None
    why_not: str | None = None


def ranked(config: RunConfig, form: Form) -> tuple[Ranking, tuple[str, ...]]:
    """Every method, the one to prefer first, and why it is preferred."""
    found = ranking(form.measures(config.epsilon), bool(config.public))
    rest = [name for name in method_names() if name not in found.order]
    return found, (*found.order, *rest)


def candidate(name: str, config: RunConfig, form: Form, seconds: float, clock: Clock) -> Candidate:
    """One method with the settings that its rule, or its preset, gives it for this time."""
    try:
        method = get_method(name)
        why_not = _unmet(method, config)
        if why_not is not None:
            return Candidate(name, why_not=why_not)
        require_packages(method.info)
        facts = form.facts(method)
        fit = _fit(method, config, form, seconds, clock)
        method.spend(fit.config, facts)(1.0)
    except UserError as error:
        return Candidate(name, why_not=str(error))
    return Candidate(name, fit)


def first_usable(
    config: RunConfig, form: Form, seconds: float, clock: Clock
) -> tuple[Candidate, str]:
    """The candidate that is recommended, and why; refuses where there is none."""
    found, order = ranked(config, form)
    reasons: list[str] = []
    for name in order:
        one = candidate(name, config, form, seconds, clock)
        if one.why_not is None:
            because = found.because if name == found.order[0] else "those before it cannot be used"
            return one, because
        reasons.append(f"{name}: {one.why_not.rstrip('.')}")
    raise UserError(f"no method can be used for these data ({'; '.join(reasons)}).")


def _unmet(method: Method, config: RunConfig) -> str | None:
    """What a run would have to give and does not, or gives and the method does not take."""
    info = method.info
    if info.claim != "central":
        return f"its claim is {info.claim}; name it by --method"
    if info.hides != bool(config.hide):
        return "needs --hide" if info.hides else "hides nothing"
    if config.public and not info.public_records:
        return "takes no public images"
    if config.weights and not info.public_weights:
        return "takes no weights"
    if not config.public and any(entry.needed for entry in info.public_records):
        return "needs --public DATA"
    if not config.weights and any(e.needed and e.default is None for e in info.public_weights):
        return "needs --weights FILE"
    return None


def has_preset_for(method: Method, form: Form) -> bool:
    """Whether a preset was made for these very data."""
    entries = find_presets(method).entries if form.dataset is not None else ()
    return any(preset.dataset == form.dataset for preset in entries)


def by_preset(method: Method, config: RunConfig, form: Form, clock: Clock) -> Fit:
    """The preset that matches best, with what is changed by hand, and what it would take."""
    facts = form.facts(method)
    settings = resolve_config(method, form.dataset, config.epsilon, config.changes).config
    samples = config.samples or sum(facts.counts.values())
    return Fit(settings, seconds_of(method, settings, facts, samples, clock))


def _fit(method: Method, config: RunConfig, form: Form, seconds: float, clock: Clock) -> Fit:
    """By rule, unless there is none, or a preset for these very data stays within the time."""
    facts = form.facts(method)
    rule = find_rule(method, facts, config.epsilon)
    if rule is None or has_preset_for(method, form):
        fit = by_preset(method, replace(config, changes=()), form, clock)
        if rule is None or fit.seconds <= seconds:
            return fit
    samples = config.samples or sum(facts.counts.values())
    return fit_into(seconds, Ladder(method, rule, facts, samples), clock)


def seconds_of(method: Method, config: Any, facts: Facts, samples: int, clock: Clock) -> float:
    """What a run with these settings would take; not a number where nobody can tell."""
    if not isinstance(method, Forecasting):
        return float("nan")
    loops: Sequence[Any] = method.loops(config, facts, samples)
    return clock.guess(loops).seconds(loops)
