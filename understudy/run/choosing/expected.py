"""How long a prepared run will take, and how much memory it wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.methods.contract import Forecasting
from understudy.progress import Progress
from understudy.run.choosing.settle import rates_of, where_in_words
from understudy.run.choosing.trial import Tried, trial
from understudy.run.context import choose_device
from understudy.run.prepare import Prepared, sample_count


@dataclass(frozen=True)
class Expected:
    """Seconds of fitting and drawing, and gigabytes; `where` in words, and by what."""

    seconds: float
    gigabytes: float
    where: str

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "gigabytes": round(self.gigabytes, 1),
            "where": self.where,
        }


def expected_of(prepared: Prepared, progress: Progress, *, tries: bool) -> Expected | None:
    """What these settings take; None where the method cannot tell.

    tries: whether some seconds may be spent on a trial here, unless there was one already. Else,
        and for a kind of machine that was named, rates answer.
    """
    method, config = prepared.method, prepared.config
    if not isinstance(method, Forecasting):
        return None
    settings, facts, samples = prepared.settings.config, prepared.facts, sample_count(prepared)
    gigabytes = method.gigabytes(settings, facts)
    loops = method.loops(settings, facts, samples)
    where = where_in_words(config)
    if prepared.tried is not None:
        return Expected(prepared.tried, gigabytes, f"{where}, by a trial")
    if config.device_kind is not None or not tries:
        rates = rates_of(config)
        return Expected(rates.guess(loops).seconds(loops), gigabytes, f"{where}, by its rates")
    device = choose_device(config.device)
    weights = prepared.public.weights
    tried = Tried(method, settings, facts, prepared.noise, device, samples, weights)
    seconds = trial(tried, progress).seconds(loops)
    return Expected(seconds, gigabytes, f"{where}, by a trial")
