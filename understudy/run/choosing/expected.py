"""How long a prepared run will take, and how much memory it wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.methods.contract import Forecasting
from understudy.methods.pace import Pace
from understudy.progress import Progress
from understudy.run.choosing.settle import rates_here, rates_of, where_in_words
from understudy.run.choosing.trial import Tried, quick_trial
from understudy.run.context import choose_device
from understudy.run.prepare import Prepared, sample_count


@dataclass(frozen=True)
class Expected:
    """Seconds of fitting and drawing, and gigabytes; `where` in words, and by what.

    here: seconds on the machine at hand, which may be another one than the run is fitted for.
    """

    seconds: float
    gigabytes: float
    where: str
    here: float

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "gigabytes": round(self.gigabytes, 1),
            "where": self.where,
        }


def expected_of(prepared: Prepared, progress: Progress, *, tries: bool) -> Expected | None:
    """What these settings take; None where the method cannot tell.

    tries: whether some seconds may be spent on a trial here, unless there was one already. Else,
        for a kind of machine that was named, and where a trial itself would take long, known rates
        answer.
    """
    method, config = prepared.method, prepared.config
    if not isinstance(method, Forecasting):
        return None
    settings, facts, samples = prepared.settings.config, prepared.facts, sample_count(prepared)
    gigabytes, where = method.gigabytes(settings, facts), where_in_words(config)
    if prepared.tried is not None:
        return Expected(prepared.tried, gigabytes, f"{where}, by a trial", prepared.tried)
    loops = method.loops(settings, facts, samples)
    here = rates_here(choose_device(config.device)).guess(loops)
    told: Pace | None = None
    if config.device_kind is not None:
        told = rates_of(config).guess(loops)
    elif tries:
        told = _tried(prepared, here, samples, progress)
        here = told or here
    seconds, by = (told or here).seconds(loops), "a trial" if here.tried else "known rates"
    return Expected(seconds, gigabytes, f"{where}, by {by}", here.seconds(loops))


def _tried(prepared: Prepared, guess: Pace, samples: int, progress: Progress) -> Pace | None:
    tried = Tried(
        prepared.method,
        prepared.settings.config,
        prepared.facts,
        prepared.noise,
        choose_device(prepared.config.device),
        samples,
        prepared.public.weights,
    )
    return quick_trial(tried, guess, progress)
