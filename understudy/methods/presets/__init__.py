"""Presets: settings as data, each saying what it was tuned on.

A method's presets live in `presets/<name>.yaml` beside its module (or one package up).
The file is a list; each entry has `tuned_on` and `settings`, and may say `dataset`,
`epsilon_at_least` and `tuned_on_itself`. The entry without dataset and epsilon is the
default. `tuned_on` calls datasets by their catalog names: a preset that is used on a
dataset which it names was tuned on itself. A choice layers the default,
then the dataset's entry, then the dataset's entry for the largest `epsilon_at_least` that
the run reaches; the words of the last layer used go into the claim.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources.abc import Traversable
from typing import Any

from understudy.errors import UserError, did_you_mean
from understudy.methods.contract import Method
from understudy.methods.method_files import method_file, read_entries

DEFAULT = "default"
UNTUNED = "not tuned on any data"
_KEYS = ("dataset", "epsilon_at_least", "tuned_on", "tuned_on_itself", "settings")


@dataclass(frozen=True)
class Preset:
    """Settings by name, and the data that they were chosen on.

    tuned_on_itself: the tuning looked at the dataset that the preset is for, so a claim on
        that dataset does not cover it.
    """

    tuned_on: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    dataset: str | None = None
    epsilon_at_least: float = 0.0
    tuned_on_itself: bool = False

    @property
    def name(self) -> str:
        """How reports call it.

        >>> Preset("x", dataset="mnist", epsilon_at_least=5.0).name
        'mnist, epsilon 5 or more'
        """
        tail = f", epsilon {self.epsilon_at_least:g} or more" if self.epsilon_at_least else ""
        return f"{self.dataset or DEFAULT}{tail}"

    def was_tuned_on(self, dataset: str | None) -> bool:
        """Whether the words of `tuned_on` name this dataset, or the preset says so itself.

        >>> Preset("tuned on fashion-mnist").was_tuned_on("mnist")
        False
        """
        if self.tuned_on_itself or dataset is None:
            return self.tuned_on_itself
        return re.search(rf"(?<![\w-]){re.escape(dataset)}(?![\w-])", self.tuned_on) is not None

    def saw(self, dataset: str | None) -> bool:
        """Whether the tuning looked at a run's dataset, of whichever dataset the preset is.

        >>> Preset("by eye", dataset="mnist", tuned_on_itself=True).saw("digits")
        False
        """
        own = self.dataset in (None, dataset)
        asked = self if own else replace(self, tuned_on_itself=False)
        return asked.was_tuned_on(dataset)


@dataclass(frozen=True)
class Presets:
    """All presets of one method."""

    entries: tuple[Preset, ...]

    def choose(self, dataset: str | None, epsilon: float | None) -> Preset:
        """The layered preset for a dataset (by catalog name) and a budget."""
        return self._layered(dataset, dataset, epsilon)

    def named(self, name: str, dataset: str | None, epsilon: float | None) -> Preset:
        """The preset that was asked for by name, for a run on this dataset and budget.

        `default`, or the dataset that a preset is for; what the epsilon adds to it comes by itself.
        """
        known = {DEFAULT: None, **{p.dataset: p.dataset for p in self.entries if p.dataset}}
        wanted = name.partition(",")[0].strip().lower()
        if wanted not in known:
            raise UserError(f"no preset {name!r}; {did_you_mean(wanted, known)}")
        return self._layered(known[wanted], dataset, epsilon)

    def _layered(self, wanted: str | None, dataset: str | None, epsilon: float | None) -> Preset:
        """The layers of one preset; whether they were tuned on the run's own dataset is asked of
        each, and a preset of another dataset answers by its words."""
        reached = 0.0 if epsilon is None else epsilon
        layers = [
            p for p in self.entries if p.dataset in (None, wanted) and p.epsilon_at_least <= reached
        ]
        layers.sort(key=lambda p: (p.dataset is not None, p.epsilon_at_least))
        merged: dict[str, Any] = {}
        for layer in layers:
            merged.update(layer.settings)
        last = layers[-1] if layers else Preset(UNTUNED)
        return Preset(
            last.tuned_on,
            merged,
            last.dataset,
            last.epsilon_at_least,
            any(layer.saw(dataset) for layer in layers),
        )


def find_presets(method: Method) -> Presets:
    """The presets that ship with a method; a method may have none."""
    file = method_file(method, "presets")
    return Presets(()) if file is None else read_presets(file)


def read_presets(file: Traversable) -> Presets:
    """Read a preset file; what is wrong in it is named."""
    return Presets(tuple(_preset(file.name, entry) for entry in read_entries(file, "preset")))


def _preset(file_name: str, entry: Any) -> Preset:
    if not isinstance(entry, dict) or not isinstance(entry.get("settings", {}), dict):
        raise UserError(f"preset file {file_name}: each preset is a mapping with `settings`.")
    for key in entry:
        if key not in _KEYS:
            raise UserError(f"preset file {file_name}: no key {key!r}; {did_you_mean(key, _KEYS)}")
    if not entry.get("tuned_on"):
        raise UserError(f"preset file {file_name}: a preset must say `tuned_on`, in words.")
    return Preset(
        tuned_on=str(entry["tuned_on"]),
        settings=dict(entry.get("settings", {})),
        dataset=entry.get("dataset"),
        epsilon_at_least=float(entry.get("epsilon_at_least", 0.0)),
        tuned_on_itself=bool(entry.get("tuned_on_itself", False)),
    )
