"""What a run leaves open is decided here, once: its method and the settings that its time allows.

Guarantee: what is decided follows from declared facts (inferred ones are listed as assumed
public), and from how fast a machine is; never from a record. What was decided stands in the run's
config from then on, so that going on with it, evaluating or packing it decides nothing anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from understudy.methods.config import config_to_json, read_changes
from understudy.methods.contract import Method
from understudy.methods.machines import CPU, GPU, machine
from understudy.methods.pace import Pace
from understudy.methods.registry import get_method
from understudy.methods.rules import Rule
from understudy.privacy.plan.exact_or_float import choose_noise
from understudy.progress import Progress
from understudy.run.choosing.candidates import Form, find_candidates, rule_for, samples_of
from understudy.run.choosing.fitting import ByRates, ByTrial, Clock, Fit, Ladder, fit_into
from understudy.run.choosing.probe import slower_here
from understudy.run.choosing.trial import Tried, quick_trial
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
    if config.preset is not None:
        config = replace(config, time=None)
    if config.is_settled:
        return Settled(config)
    rates, said = rates_of(config), []
    if config.method == RECOMMENDED:
        config, because = _with_method(config, form, rates)
        said.append(f"method: {config.method}, recommended for such data: {because}.")
    if config.time is None:
        return Settled(config, tuple(said))
    method = get_method(config.method)
    rule, instead = rule_for(method, config, form, config.time, rates)
    said += [] if instead is None else [instead]
    if rule is None:
        return Settled(replace(config, time=None), tuple(said))
    ladder = _ladder(method, rule, config, form)
    fit = fit_into(config.time, ladder, _clock(method, rule, config, ladder, rates, progress))
    said.append(_decided(config, fit))
    config = replace(config, fitted=in_words(fit.config), fitted_on=rule.tuned_on)
    return Settled(config, tuple(said), fit.seconds if fit.tried else None)


def rates_of(config: RunConfig) -> ByRates:
    """Rates of the kind of machine that was named; of this one, by its probe."""
    if config.device_kind is not None:
        return ByRates(machine(config.device_kind))
    return rates_here(choose_device(config.device))


def rates_here(device: torch.device) -> ByRates:
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
    candidates = find_candidates(config, form, config.time or float("inf"), rates)
    found, because = candidates.recommended()
    return replace(config, method=found.name, ranked_on=candidates.ranking.tuned_on), because


def _ladder(method: Method, rule: Rule, config: RunConfig, form: Form) -> Ladder:
    facts = form.facts(method)
    ladder = Ladder(method, rule, facts, samples_of(config, facts), read_changes(config.changes))
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

    def tried(settings: Any, guess: Pace) -> Pace | None:
        noise = choose_noise(method.spend(settings, facts), config.noise, config.method)
        what = Tried(method, settings, facts, noise, device, ladder.samples)
        return quick_trial(what, guess, progress)

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
