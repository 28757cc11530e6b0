"""What a run leaves open is decided here, once: its method and the settings that its time allows.

Guarantee: what is decided follows from declared facts (inferred ones are listed as assumed
public), and from how fast a machine is; never from a record. What was decided stands in the run's
config from then on, so that going on with it, evaluating or packing it decides nothing anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from understudy.methods.config import config_to_json, read_changes
from understudy.methods.contract import Forecasting, Method
from understudy.methods.machines import CPU, GPU, machine
from understudy.methods.pace import Pace
from understudy.methods.registry import get_method
from understudy.methods.rules import Rule, find_rule
from understudy.privacy.plan.exact_or_float import choose_noise
from understudy.progress import Progress
from understudy.run.choosing.candidates import Form, by_preset, first_usable, has_preset_for
from understudy.run.choosing.fitting import ByRates, ByTrial, Clock, Fit, Ladder, fit_into
from understudy.run.choosing.probe import slower_here
from understudy.run.choosing.trial import Tried, trial
from understudy.run.config import RECOMMENDED, RunConfig
from understudy.run.context import choose_device
from understudy.run.listing import duration


@dataclass(frozen=True)
class Settled:
    """A run with nothing left open.

    said: what was decided, for whoever waits; after everything that could refuse the run.
    tried: the seconds that a trial says these settings take here; None where there was none.
    """

    config: RunConfig
    said: tuple[str, ...] = ()
    tried: float | None = None


def settled(config: RunConfig, form: Form, progress: Progress) -> Settled:
    """The same run with nothing left open."""
    if config.is_settled:
        return Settled(config)
    rates, said = rates_of(config), []
    if config.method == RECOMMENDED:
        config, because = _with_method(config, form, rates)
        said.append(f"method: {config.method}, recommended for such data: {because}.")
    method = get_method(config.method)
    rule, instead = _rule(method, config, form, rates)
    said += instead
    if rule is None or config.time is None:
        return Settled(replace(config, time=None), tuple(said))
    ladder = _ladder(method, rule, config, form)
    clock = _clock(method, rule, config, ladder, rates, progress)
    fit = fit_into(config.time, ladder, clock)
    said.append(_decided(config, fit))
    config = replace(config, fitted=in_words(fit.config), fitted_on=rule.tuned_on)
    return Settled(config, tuple(said), fit.seconds if isinstance(clock, ByTrial) else None)


def rates_of(config: RunConfig) -> ByRates:
    """Rates of the kind of machine that was named; of this one, by its probe."""
    if config.device_kind is not None:
        return ByRates(machine(config.device_kind))
    device = choose_device(config.device)
    return ByRates(machine(GPU if device.type == "cuda" else CPU), slower_here(device))


def where_in_words(config: RunConfig) -> str:
    """Where a run's time is told for, after a verb."""
    return "here" if config.device_kind is None else f"on {machine(config.device_kind).name}"


def in_words(config: Any) -> tuple[str, ...]:
    """Every setting as `key=value`, which `--set` would read."""
    return tuple(f"{name}={_word(value)}" for name, value in config_to_json(config).items())


def _word(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_word, value))
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def _with_method(config: RunConfig, form: Form, rates: ByRates) -> tuple[RunConfig, str]:
    """With the method that is recommended, and why it is."""
    found, because = first_usable(config, form, config.time or float("inf"), rates)
    return replace(config, method=found.name), because


def _rule(
    method: Method, config: RunConfig, form: Form, rates: ByRates
) -> tuple[Rule | None, list[str]]:
    """The rule to follow, and what is to be said of it; none where a preset was asked for, or was
    made for these data and stays within the time."""
    if config.preset is not None or config.time is None or not isinstance(method, Forecasting):
        return None, []
    rule = find_rule(method, form.facts(method), config.epsilon)
    if rule is None or not has_preset_for(method, form):
        return rule, []
    expected = by_preset(method, config, form, rates).seconds
    if expected <= config.time:
        return None, []
    instead = (
        f"the preset for {form.dataset} would take about {duration(expected)}; settings by rule "
        f"instead (--preset {form.dataset} takes it)."
    )
    return rule, [instead]


def _ladder(method: Method, rule: Rule, config: RunConfig, form: Form) -> Ladder:
    facts = form.facts(method)
    samples = config.samples or sum(facts.counts.values())
    ladder = Ladder(method, rule, facts, samples, read_changes(config.changes))
    method.spend(ladder.config(0), facts)(1.0)  # refuses what no settings could mend
    return ladder


def _clock(
    method: Method,
    rule: Rule,
    config: RunConfig,
    ladder: Ladder,
    rates: ByRates,
    progress: Progress,
) -> Clock:
    """Trials here; rates where a kind of machine was named, the length is set by hand, or a trial
    would need weights."""
    by_hand = rule.stretch is not None and rule.stretch.setting in read_changes(config.changes)
    if config.device_kind is not None or by_hand or method.info.public_weights:
        return rates
    device, facts = choose_device(config.device), ladder.facts

    def tried(settings: Any) -> Pace:
        noise = choose_noise(method.spend(settings, facts), config.noise, config.method)
        return trial(Tried(method, settings, facts, noise, device, ladder.samples), progress)

    return ByTrial(rates.machine, rates.slower, tried)


def _decided(config: RunConfig, fit: Fit) -> str:
    """Said before anything is spent."""
    assert config.time is not None
    took, where = duration(fit.seconds), where_in_words(config)
    words = f"settings by rule for {duration(config.time)} {where}: about {took}"
    if fit.seconds <= config.time:
        return f"{words}."
    fixed = " with this --set" if config.changes else ""
    return f"{words}; no settings of {config.method} for such data{fixed} take less."
