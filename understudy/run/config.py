"""What a run was asked to do, in full; `config.yaml` of its folder holds it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from understudy.durable import write_durably
from understudy.errors import UserError, did_you_mean, did_you_mean_beside, reading
from understudy.methods.machines import machine
from understudy.methods.registry import method_name
from understudy.privacy.plan.mechanisms import NOISES
from understudy.privacy.plan.plan import Budget

FILE = "config.yaml"
MOST_RECORDS = 10**12
"""More than anybody has; every whole number up to here is exact as a float, too."""

RECOMMENDED = "recommended"
"""As `method`: whichever is recommended for such data."""

TEN_MINUTES = 600.0

NOTHING_SELECTED = "nothing"
"""As `selected_by`: the owner declares that no setting was chosen by private records."""


@dataclass(frozen=True)
class RunConfig:
    """One method on one dataset at one budget and seed.

    source: what `understudy.data.load` takes.
    method: its name; by default the one that is recommended for such data.
    epsilon: None asks for no guarantee (an empirical run).
    public, weights: the public inputs of the method, each as `NAME=DATA` or `NAME=FILE`; DATA or
        FILE alone where the method takes one. One word stands for a tuple of one.
    count: the declared number of units (n0); None infers it from the data, and the claim
        lists it as assumed public.
    holdout: the fraction kept from the method for evaluation, where the source gives no
        test part of its own.
    dataset: the owner's name for the data, under which the account book adds up.
    preset: the name of the method's settings to start from; None takes the best match, or, where
        none was made for these data, settings by rule.
    time: seconds that settings by rule are fitted into; None takes presets as they are.
    device_kind: fit them for this kind of machine, by its rates; None tries them here.
    fitted, fitted_on: the settings that the rule chose, as `key=value`, and what it was made on in
        words. ranked_on: what the order of methods was made on, where it chose the method. A run
        writes these three, and refuses to be given them.
    changes: method settings as `key=value`, on top of the preset.
    samples: how many records to make; None makes as many as the training part declares.
    selected_among, selected_by, selection_covered: what these settings were chosen among,
        by what, and whether that choice is public or charged. With "nothing" as the criterion the
        last confirms that nothing was chosen, although runs on these data were evaluated.
    noise: "exact" or "float", the arithmetic of the noise; None takes exact for methods whose
        releases are one-shot, float for others.
    limit: a smoke run on about so many training records, samples and test records; it can
        never be released.
    insecure_noise_seed: repeatable noise for debugging; such a run can never be released.
    """

    source: str
    method: str = RECOMMENDED
    epsilon: float | None = None
    delta: float = 1e-5
    label: str | None = None
    unit: str | None = None
    size: int | None = None
    channels: int | None = None
    classes: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    count: int | None = None
    holdout: float = 0.15
    dataset: str | None = None
    preset: str | None = None
    changes: tuple[str, ...] = ()
    samples: int | None = None
    seed: int = 0
    device: str = "auto"
    selected_among: tuple[str, ...] = ()
    selected_by: str | None = None
    selection_covered: bool = False
    noise: str | None = None
    limit: int | None = None
    insecure_noise_seed: int | None = None
    time: float | None = TEN_MINUTES
    device_kind: str | None = None
    fitted: tuple[str, ...] = ()
    fitted_on: str | None = None
    ranked_on: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", method_name(self.method))
        object.__setattr__(self, "public", several(self.public))
        object.__setattr__(self, "weights", several(self.weights))
        self.budget()
        if not self.source.strip():
            raise UserError("the data has no name; give a folder, a Parquet file or a dataset.")
        if self.epsilon is not None and math.isinf(self.epsilon):
            raise UserError("epsilon must be finite; leave it out for an empirical run.")
        if self.seed < 0:
            raise UserError(f"--seed must be 0 or more, not {self.seed}.")
        if self.count is not None and not 1 <= self.count <= MOST_RECORDS:
            raise UserError(f"--count must lie between 1 and {MOST_RECORDS:,}, not {self.count}.")
        if not 0 < self.holdout < 1:
            raise UserError(f"--holdout must lie between 0 and 1, not {self.holdout}.")
        if self.noise is not None and self.noise not in NOISES:
            raise UserError(f"--noise must be {' or '.join(NOISES)}, not {self.noise!r}.")
        if self.samples is not None and not 1 <= self.samples <= MOST_RECORDS:
            raise UserError(
                f"--samples must lie between 1 and {MOST_RECORDS:,}, not {self.samples}."
            )
        if self.limit is not None and self.limit < 2:
            raise UserError(f"--limit must be at least 2, not {self.limit}.")
        if self.unit is not None and self.unit == self.label:
            raise UserError(f"--unit and --label both name {self.unit!r}; they must differ.")
        self._check_selection()
        self._check_time()

    def _check_time(self) -> None:
        if self.time is not None and not 1 <= self.time < math.inf:
            raise UserError(f"--time must be a second or more, and finite, not {self.time:g} s.")
        if self.device_kind is not None:
            machine(self.device_kind)

    @property
    def is_settled(self) -> bool:
        """Whether method and settings are decided; see `understudy.run.choosing`."""
        decided = self.time is None or self.preset is not None or bool(self.fitted)
        return decided and self.method != RECOMMENDED

    def _check_selection(self) -> None:
        if self.selected_among and not self.selected_by:
            raise UserError("--selected-among needs --selected-by: what was the choice made by?")
        if self.selected_by and not self._nothing_selected and not self.selected_among:
            raise UserError("--selected-by needs --selected-among: what was the choice between?")
        if self.selection_covered and not (self.selected_among or self._nothing_selected):
            raise UserError("--selection-covered needs --selected-among: which choice is covered?")

    @property
    def _nothing_selected(self) -> bool:
        return self.selected_by == NOTHING_SELECTED

    def decided_as(self, began: RunConfig) -> RunConfig:
        """This config with what it leaves open as another one was decided.

        A run that began by a preset has no time any more, and a team's processes are given none.
        """
        return replace(
            self,
            method=began.method if self.method == RECOMMENDED else self.method,
            time=began.time if None in (self.time, began.time) else self.time,
            fitted=began.fitted,
            fitted_on=began.fitted_on,
            ranked_on=began.ranked_on,
        )

    def budget(self) -> Budget:
        if self.epsilon is None:
            return Budget.empirical(self.delta)
        return Budget(self.epsilon, self.delta)

    def differing(self, other: RunConfig) -> list[str]:
        """The options in which two configs differ, by their names on the command line."""
        names = (f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name))
        return [_ARGUMENTS.get(name, f"--{name.replace('_', '-')}") for name in names]


_ARGUMENTS = MappingProxyType({"source": "DATA", "changes": "--set"})
"""Settings of a run whose option is called otherwise."""


def several(given: Any) -> tuple[str, ...]:
    """Public inputs as a tuple; version 0.1 had one word for them, or None.

    >>> several(None), several("digits"), several(["a=x", "b=y"])
    ((), ('digits',), ('a=x', 'b=y'))
    """
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def write_config(folder: Path, config: RunConfig) -> None:
    import yaml

    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items()}
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    write_durably(folder / FILE, text.encode())


def read_config(folder: Path) -> RunConfig:
    """The config of a run folder; what is wrong in the file is named."""
    import yaml

    path = folder / FILE
    if not path.exists():
        near = "" if folder.exists() else f" {did_you_mean_beside(folder) or ''}".rstrip()
        raise UserError(f"{folder} is not a run folder: it has no {FILE}.{near}")
    try:
        with reading(path):
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not readable YAML.") from error
    return _from_mapping(data, path)


def _from_mapping(data: Any, path: Path) -> RunConfig:
    if not isinstance(data, Mapping):
        raise UserError(f"{path} must hold settings by name.")
    known = {f.name for f in fields(RunConfig)}
    for key in data:
        if key not in known:
            raise UserError(f"{path}: no setting {key!r}; {did_you_mean(str(key), known)}")
    for key in _ALWAYS_THERE:
        if key not in data:
            raise UserError(f"{path} says no {key}; restore what the run wrote.")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    values.setdefault("time", None)  # version 0.1 knew presets alone
    if isinstance(values.get("public"), str | None):
        values["public"] = several(values.get("public"))  # as version 0.1 wrote it
    hints = get_type_hints(RunConfig)
    for key, value in values.items():
        if not _fits(value, hints[key]):
            raise UserError(f"{path}: {key} cannot be {data[key]!r}; restore what the run wrote.")
    return RunConfig(**values)


_ALWAYS_THERE = ("source", "method", "epsilon")
"""What would change its meaning if a file that lost it were read by what is usual."""

_LARGEST = 2**1000
"""A whole number that is still a float."""


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a field's type; whole numbers serve as fractions, True as neither."""
    if isinstance(hint, UnionType):
        return any(_fits(value, choice) for choice in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    if hint in (int, float):
        kinds = (int,) if hint is int else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool)
        return right and (isinstance(value, float) or abs(value) <= _LARGEST)
    return isinstance(value, hint)
