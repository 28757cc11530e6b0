"""A method's settings: documented fields, presets from data files, `--set key=value`.

A Config is a frozen dataclass whose fields are made with `setting`. Its values come, in
this order, from the field defaults, from the method's preset file (the default preset,
then the one for the dataset, then the one for the dataset at this epsilon), and from
what the user set. Every value passes the same type and range check.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.errors import UserError, did_you_mean
from understudy.methods.contract import Method
from understudy.methods.presets import Preset, find_presets

PRESET = "preset"
"""Among what was changed by hand: the preset itself."""

BY_RULE = "by rule"
"""What the settings are called that a rule chose."""


@dataclass(frozen=True)
class Setting:
    """One documented field of a Config, as help pages list it."""

    name: str
    type: str
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The values that are right, in words.

        >>> Setting("rate", "number", 0.1, "", low=0.0, high=1.0).allowed
        'a number from 0 to 1'
        """
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        words = _WORDS.get(self.type, self.type)
        if self.low is not None and self.high is not None:
            return f"{words} from {self.low:g} to {self.high:g}"
        if self.low is not None:
            return f"{words} of at least {self.low:g}"
        return f"{words} of at most {self.high:g}" if self.high is not None else words


@dataclass(frozen=True)
class ResolvedConfig:
    """A Config and where its values came from; the claim says `tuned_on` (rule 7).

    ranked_on: on what methods were compared, where the run took the one that was recommended.
    """

    config: Any
    preset: str
    tuned_on: str
    changed: tuple[str, ...]
    tuned_on_itself: bool = False
    ranked_on: str | None = None

    def ranked(self, on: str, dataset: str | None) -> ResolvedConfig:
        """The same settings of a method that was recommended; it too may have been by this data."""
        itself = self.tuned_on_itself or Preset(on).was_tuned_on(dataset)
        return dataclasses.replace(self, ranked_on=on, tuned_on_itself=itself)


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """A documented dataclass field; `low` and `high` are allowed values themselves.

    For a tuple the range is that of each entry.
    """
    metadata = {"help": help, "low": low, "high": high, "choices": tuple(choices)}
    return dataclasses.field(default=default, metadata=metadata)


def describe_config(config_type: type) -> tuple[Setting, ...]:
    """Every field of a Config with its type, default, range and help, in order."""
    hints = typing.get_type_hints(config_type)
    return tuple(_describe(f, hints[f.name]) for f in dataclasses.fields(config_type))


def build_config(config_type: type, values: Mapping[str, Any]) -> Any:
    """A Config from values by name: text from a command line, or typed from YAML or JSON."""
    hints = typing.get_type_hints(config_type)
    known = {s.name: s for s in describe_config(config_type)}
    checked = {}
    for name, value in values.items():
        if name not in known:
            raise UserError(f"no setting {name!r}; {did_you_mean(name, known)}")
        checked[name] = _checked(known[name], hints[name], value)
    return config_type(**checked)


def resolve_config(
    method: Method,
    dataset: str | None = None,
    epsilon: float | None = None,
    changes: Sequence[str] = (),
    preset: str | None = None,
) -> ResolvedConfig:
    """The Config of a run: the best matching preset with the user's changes on top.

    `changes` are `key=value` strings, as `--set` takes them. preset: take this one instead; that is
    a choice by hand, and stands among what was changed.
    """
    known = find_presets(method)
    chosen: Preset = (
        known.choose(dataset, epsilon) if preset is None else known.named(preset, dataset, epsilon)
    )
    by_hand = read_changes(changes)
    config = build_config(method.Config, {**chosen.settings, **by_hand})
    return ResolvedConfig(
        config,
        chosen.name,
        chosen.tuned_on,
        (*(() if preset is None else (PRESET,)), *sorted(by_hand)),
        chosen.tuned_on_itself,
    )


def fitted_config(
    method: Method,
    dataset: str | None,
    fitted: Sequence[str],
    tuned_on: str,
    changes: Sequence[str] = (),
) -> ResolvedConfig:
    """The Config that a rule chose once, as `key=value` strings, with the user's changes on top.

    tuned_on: what the rule was made on, in words; it may name this very dataset.
    """
    by_hand = read_changes(changes)
    config = build_config(method.Config, {**read_changes(fitted), **by_hand})
    itself = Preset(tuned_on).was_tuned_on(dataset)
    return ResolvedConfig(config, BY_RULE, tuned_on, tuple(sorted(by_hand)), itself)


def changed_config(config_type: type, changes: Sequence[str]) -> Any:
    """A Config's defaults with `key=value` changes, where there are no presets."""
    return build_config(config_type, read_changes(changes))


def read_changes(changes: Sequence[str]) -> dict[str, str]:
    """`key=value` strings by their keys."""
    return dict(_split_change(change) for change in changes)


def config_to_json(config: Any) -> dict[str, Any]:
    """Plain JSON values; `build_config` reads them back."""
    plain = dataclasses.asdict(config)
    return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}


def _split_change(change: str) -> tuple[str, str]:
    key, found, value = change.partition("=")
    if not found or not key.strip():
        raise UserError(f"--set takes key=value, not {change!r}.")
    return key.strip(), value.strip()


_WORDS = {
    "whole number": "a whole number",
    "number": "a number",
    "text": "text",
    "true or false": "true or false",
    "whole numbers": "whole numbers separated by commas, each",
    "numbers": "numbers separated by commas, each",
    "texts": "words separated by commas",
}
_NAMES: Mapping[Any, str] = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
}


def _describe(field: dataclasses.Field[Any], hint: Any) -> Setting:
    base, _ = _without_none(hint)
    entry = _entry_type(base)
    kind = f"{_NAMES[entry]}s" if entry is not None else _NAMES[base]
    meta = field.metadata
    if not meta.get("help"):
        raise TypeError(f"field {field.name!r} has no help; make it with setting().")
    return Setting(
        field.name, kind, field.default, meta["help"], meta["low"], meta["high"], meta["choices"]
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    """`float | None` as (float, True); other hints as they are."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        rest = [a for a in typing.get_args(hint) if a is not type(None)]
        return rest[0], True
    return hint, False


def _entry_type(hint: Any) -> Any | None:
    """The type of the entries of a `tuple[X, ...]`, or None for a single value."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None


def _checked(known: Setting, hint: Any, value: Any) -> Any:
    base, optional = _without_none(hint)
    if optional and (value is None or value == "none"):
        return None
    entry = _entry_type(base)
    try:
        if entry is None:
            return _one(known, base, value)
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not parts:
            raise ValueError
        return tuple(_one(known, entry, part) for part in parts)
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError(
            f"setting {known.name!r} must be {known.allowed}, not {value!r}."
        ) from error


def _one(known: Setting, kind: Any, value: Any) -> Any:
    read = _READERS[kind](value)
    if known.choices and read not in known.choices:
        raise ValueError
    if kind in (int, float):
        low = -math.inf if known.low is None else known.low
        high = math.inf if known.high is None else known.high
        if not low <= read <= high:
            raise ValueError
    return read


def _read_int(value: Any) -> int:
    if isinstance(value, str):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _read_float(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _read_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if not isinstance(value, str) or value.lower() not in words:
        raise ValueError
    return words[value.lower()]


def _read_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value.strip()


_READERS: Mapping[Any, Any] = {
    int: _read_int,
    float: _read_float,
    bool: _read_bool,
    str: _read_str,
}
