"""The methods that a run could use, ranked by what is declared, with what each would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.methods.config import config_to_json, read_changes, resolve_config
from understudy.methods.contract import Facts, Forecasting, Loop, Method
from understudy.methods.machines import CPU
from understudy.methods.needs import require_packages
from understudy.methods.presets import find_presets
from understudy.methods.ranking import Ranking, ranking
from understudy.methods.registry import get_method, method_names
from understudy.methods.rules import Measures, Rule, Stretch, find_rule
from understudy.run.choosing.fitting import ByRates, Fit, Ladder, fit_into
from understudy.run.config import RunConfig
from understudy.run.listing import duration


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

    fit: None where it cannot be used, for the reason in `why_not`. Its seconds are not a number
    where nobody can tell.
    """

    name: str
    fit: Fit | None = None
    why_not: str | None = None

    def takes_longer_than(self, seconds: float) -> bool:
        return self.fit is not None and self.fit.seconds > seconds


@dataclass(frozen=True)
class Candidates:
    """All methods, the one to prefer first, and what speaks for that order."""

    ranking: Ranking
    all: tuple[Candidate, ...]
    seconds: float

    @property
    def usable(self) -> list[Candidate]:
        return [one for one in self.all if one.why_not is None]

    def recommended(self) -> tuple[Candidate, str]:
        """The first that stays within the time, and why it; the quickest where none does.

        Refuses where no method can be used.
        """
        if not self.usable:
            reasons = (f"{one.name}: {(one.why_not or '').rstrip('.')}" for one in self.all)
            raise UserError(f"no method can be used for these data ({'; '.join(reasons)}).")
        quick = [one for one in self.usable if not one.takes_longer_than(self.seconds)]
        best = quick[0] if quick else min(self.usable, key=_seconds)
        if best is self.all[0]:
            return best, self.ranking.because
        longer = best is not self.usable[0]
        return best, f"those before it cannot be used{' or take longer' if longer else ''}"


def find_candidates(config: RunConfig, form: Form, seconds: float, rates: ByRates) -> Candidates:
    """Every method, as far as declared facts and rates tell, at once."""
    gpu = rates.machine.kind != CPU
    found = ranking(form.measures(config.epsilon), public=bool(config.public), gpu=gpu)
    rest = [name for name in method_names() if name not in found.order]
    tried = (candidate(name, config, form, seconds, rates) for name in (*found.order, *rest))
    return Candidates(found, tuple(tried), seconds)


def candidate(
    name: str, config: RunConfig, form: Form, seconds: float, rates: ByRates
) -> Candidate:
    """One method with the settings that its rule, or its preset, gives it for this time."""
    try:
        method = get_method(name)
        why_not = _unmet(method, config)
        if why_not is not None:
            return Candidate(name, why_not=why_not)
        require_packages(method.info)
        facts = form.facts(method)
        fit = _fit(method, config, form, seconds, rates)
        method.spend(fit.config, facts)(1.0)
    except UserError as error:
        return Candidate(name, why_not=str(error))
    return Candidate(name, fit)


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


def _fit(method: Method, config: RunConfig, form: Form, seconds: float, rates: ByRates) -> Fit:
    unchanged = replace(config, changes=())
    rule, _ = rule_for(method, unchanged, form, seconds, rates)
    if rule is None:
        return by_preset(method, unchanged, form, rates)
    facts = form.facts(method)
    ladder = Ladder(method, rule, facts, samples_of(config, facts))
    return fit_into(seconds, ladder, rates)


def rule_for(
    method: Method, config: RunConfig, form: Form, seconds: float, rates: ByRates
) -> tuple[Rule | None, str | None]:
    """The rule that settings follow, and what is to be said of it.

    None where the preset does: a method without rules, or one with a preset for these very data
    that stays within the time. A preset that would take longer is cut to fewer rounds of its
    longest loop, down to a quarter; only then the rule for any data counts.
    """
    if not isinstance(method, Forecasting):
        return None, None
    rule = find_rule(method, form.facts(method), config.epsilon)
    if rule is None or not _has_preset_for(method, form):
        return rule, None
    preset = by_preset(method, config, form, rates)
    if preset.seconds <= seconds:
        return None, None
    took = f"the preset for {form.dataset} would take about {duration(preset.seconds)}"
    shorter = _shorter_preset(method, config, form, rates)
    facts, by_hand = form.facts(method), read_changes(config.changes)
    ladder = Ladder(method, shorter, facts, samples_of(config, facts), by_hand)
    if fit_into(seconds, ladder, rates).seconds <= seconds:
        return shorter, f"{took}; it gets fewer rounds (--preset {form.dataset} takes all)."
    return rule, f"{took}; settings by rule instead (--preset {form.dataset} takes it)."


def _has_preset_for(method: Method, form: Form) -> bool:
    """Whether a preset was made for these very data."""
    entries = find_presets(method).entries if form.dataset is not None else ()
    return any(preset.dataset == form.dataset for preset in entries)


def _shorter_preset(method: Method, config: RunConfig, form: Form, rates: ByRates) -> Rule:
    """The preset as a rule that allows it fewer rounds of the loop that takes longest."""
    settings = resolve_config(method, form.dataset, config.epsilon)
    facts = form.facts(method)
    loops = _loops(method, settings.config, facts, samples_of(config, facts))
    pace = rates.guess(loops)
    longest = max(
        (loop for loop in loops if loop.setting is not None),
        key=lambda loop: loop.rounds * pace.rounds[loop.bar],
    )
    assert longest.setting is not None
    itself = f"; on {form.dataset} itself" if settings.tuned_on_itself else ""
    return Rule(
        f"{settings.tuned_on}{itself}; fewer rounds by time",
        settings=config_to_json(settings.config),
        stretch=Stretch(longest.setting, most=1.0),
    )


def by_preset(method: Method, config: RunConfig, form: Form, rates: ByRates) -> Fit:
    """The preset that matches best, with what is changed by hand, and what it would take."""
    facts = form.facts(method)
    settings = resolve_config(method, form.dataset, config.epsilon, config.changes).config
    return Fit(settings, seconds_of(method, settings, facts, samples_of(config, facts), rates))


def samples_of(config: RunConfig, facts: Facts) -> int:
    return config.samples or sum(facts.counts.values())


def seconds_of(method: Method, config: Any, facts: Facts, samples: int, rates: ByRates) -> float:
    """What a run with these settings would take; not a number where nobody can tell."""
    if not isinstance(method, Forecasting):
        return float("nan")
    loops = _loops(method, config, facts, samples)
    return rates.guess(loops).seconds(loops)


def _loops(method: Method, config: Any, facts: Facts, samples: int) -> Sequence[Loop]:
    assert isinstance(method, Forecasting)
    return method.loops(config, facts, samples)


def _seconds(one: Candidate) -> float:
    assert one.fit is not None
    return one.fit.seconds
