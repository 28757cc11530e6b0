"""`methods --for DATA`: the methods that can be used, ranked, and the one to take."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from understudy.errors import MixedSizesError
from understudy.methods.machines import GPU, machine
from understudy.methods.registry import get_method
from understudy.nets.sizes import LARGEST
from understudy.progress import Progress
from understudy.run.choosing.candidates import (
    Candidate,
    Candidates,
    Form,
    find_candidates,
    samples_of,
    seconds_of,
)
from understudy.run.choosing.fitting import ByRates
from understudy.run.choosing.settle import rates_of
from understudy.run.config import TEN_MINUTES, RunConfig
from understudy.run.listing import Listing, duration
from understudy.run.material import gather
from understudy.run.notices import protected_in_words
from understudy.run.prepare import form_of

USUAL_EPSILON, USUAL_SIZE = 10.0, 32
WIDTH = 80


def advise(config: RunConfig, progress: Progress) -> Listing:
    """What could be used for such a run: the method of `config` is not looked at.

    Looks at the form of the data only (size, number of classes, how many units), which every plan
    takes as public. Images of several sizes, or too large ones, are looked at as if --size had
    been given. Nothing is spent, and nothing is written.
    """
    config, form, notes = _looked_at(config, progress)
    seconds, rates = config.time or TEN_MINUTES, rates_of(config)
    found = find_candidates(config, form, seconds, rates)
    there = None if rates.machine.kind == GPU else ByRates(machine(GPU))
    rows = [_row(n, one, config, form, there) for n, one in enumerate(found.usable, start=1)]
    here = "here" if config.device_kind is None else rates.machine.name
    headings = ("", "method", "family", here)
    return Listing(
        headings if there is None else (*headings, f"these on {machine(GPU).name}"),
        tuple(rows),
        before=(*_wrapped([_form_in_words(config, form), *notes]), ""),
        after=("", *_wrapped(_told(found, config))),
    )


def _looked_at(config: RunConfig, progress: Progress) -> tuple[RunConfig, Form, list[str]]:
    """The form of the data, at a size that methods take."""
    try:
        form = _form(config, progress)
    except MixedSizesError as error:
        why, size = "the images differ in size", error.size or USUAL_SIZE
    else:
        if config.size is not None or len(form.shape) < 3 or max(form.shape[1:]) <= LARGEST:
            return config, form, []
        why, size = f"methods take at most {LARGEST} pixels a side", USUAL_SIZE
    config = replace(config, size=size)
    note = f"{why}, so this is for --size {size}."
    return config, _form(config, progress), [note]


def _form(config: RunConfig, progress: Progress) -> Form:
    return form_of(config, gather(config, None, progress, split_key=b"advice" * 6))


def _form_in_words(config: RunConfig, form: Form) -> str:
    size = "x".join(str(side) for side in form.shape)
    units = "records" if config.unit is None else f"units (each one {config.unit})"
    return (
        f"{config.source}: {form.count:,} {units} of {size}, {len(form.schema.classes)} classes; "
        f"{form.learnt:,} to learn from; epsilon {config.epsilon:g}; "
        f"{protected_in_words(config.unit)}."
    )


def _row(
    number: int, one: Candidate, config: RunConfig, form: Form, there: ByRates | None
) -> tuple[str, ...]:
    method, fit = get_method(one.name), one.fit
    assert fit is not None
    row = (str(number), one.name, method.info.family, _time(fit.seconds))
    if there is None:
        return row
    facts = form.facts(method)
    return (*row, _time(seconds_of(method, fit.config, facts, samples_of(config, facts), there)))


def _time(seconds: float) -> str:
    return "unknown" if seconds != seconds else f"about {duration(seconds)}"


def _told(found: Candidates, config: RunConfig) -> list[str]:
    """The recommendation, the command that follows it, and what cannot be used."""
    said = [] if found.usable else ["No method can be used as it is."]
    if found.usable:
        best, because = found.recommended()
        where = "" if config.device_kind is None else ", to be run on that machine"
        said += [f"Recommended: {best.name}, {because}{where}.", f"  {_command(config)}"]
    for one in found.all:
        if one.why_not is not None:
            said.append(f"{one.name} cannot be used as it is: {one.why_not.rstrip('.')}.")
    return [
        *said,
        f"Times are of settings that fit into {duration(found.seconds)} (--time), fitting and "
        "drawing; rough here, and tried before a run begins.",
    ]


def _command(config: RunConfig) -> str:
    """What follows the advice, with every option that was given for it."""
    options = [
        ("--epsilon", f"{config.epsilon:g}"),
        ("--label", config.label),
        ("--unit", config.unit),
        ("--size", config.size),
        ("--channels", config.channels),
        ("--count", config.count),
        *(("--public", one) for one in config.public),
        ("--time", None if config.time in (None, TEN_MINUTES) else f"{config.time:g}s"),
        ("--device", None if config.device == RunConfig.device else config.device),
        ("--device-kind", config.device_kind),
    ]
    given = [f"{name} {shlex.quote(str(value))}" for name, value in options if value]
    return " ".join(["understudy synthesize", shlex.quote(config.source), *given])


def _wrapped(lines: Sequence[str]) -> list[str]:
    return [
        part
        for line in lines
        for part in (
            [line] if line.startswith("  ") else textwrap.wrap(line, WIDTH, break_long_words=False)
        )
    ]
