"""What is measured and how: the settings that make two evaluations comparable.

A protocol is data (`protocols.yaml`, or a file of the same form), so that a benchmark's
protocol is added without code unless it names a classifier or an extractor that does not
exist yet. Two rows may be compared when their protocols are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from understudy.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Training:
    """How a classifier is trained; the same on synthetic and on real records.

    epochs: passes over the training records.
    least_steps: small sets get more passes, until there are at least this many steps.
    optimiser: `adamw`, or `sgd` with momentum 0.9.
    schedule: `cosine` to zero over the whole training, or `step`: the rate is multiplied
        by `step_factor` after every `step_epochs` epochs.
    holdout: the share of the given training set that only chooses the epoch.
    """

    epochs: int
    least_steps: int
    batch_size: int
    optimiser: str
    learning_rate: float
    weight_decay: float
    schedule: str
    step_epochs: int | None
    step_factor: float | None
    holdout: float

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            _whole(f"training.{name}", getattr(self, name), least=1)
        _whole("training.least_steps", self.least_steps, least=0)
        _between("training.learning_rate", self.learning_rate, 0.0, 10.0)
        _between("training.holdout", self.holdout, 0.0, 1.0)
        if not isinstance(self.weight_decay, int | float) or self.weight_decay < 0:
            raise UserError(f"training.weight_decay must be 0 or more, not {self.weight_decay!r}.")
        _one_of("training.optimiser", self.optimiser, ("adamw", "sgd"))
        _one_of("training.schedule", self.schedule, ("cosine", "step"))
        if self.schedule == "step":
            _whole("training.step_epochs", self.step_epochs, least=1)
            _between("training.step_factor", self.step_factor, 0.0, 1.0)


@dataclass(frozen=True)
class Protocol:
    """A named set of measurements.

    stamp: what must be said wherever a figure of this protocol is shown, or None.
    metrics: names in the metric registry, in the order of the table.
    classifiers, extractors: each metric that needs one is measured once with each.
    seeds: how many times each classifier is trained.
    most_training_images: larger training sets are cut to a random part of this size.
    fidelity_images: at most so many images on each side of a fidelity metric.
    fidelity_against: the real part that synthetic images are compared with: `test`, which
        a copy of the training set cannot please, or `train`.
    neighbours: k of precision and recall.
    kernel_block: the largest block of the kernel distance.
    """

    name: str
    stamp: str | None
    metrics: tuple[str, ...]
    classifiers: tuple[str, ...]
    seeds: int
    training: Training
    most_training_images: int | None
    extractors: tuple[str, ...]
    fidelity_images: int
    fidelity_against: str
    neighbours: int
    kernel_block: int

    def __post_init__(self) -> None:
        for name in ("metrics", "classifiers", "extractors"):
            _names(name, getattr(self, name))
        for name, least in (
            ("seeds", 1),
            ("fidelity_images", 2),
            ("neighbours", 1),
            ("kernel_block", 2),
        ):
            _whole(name, getattr(self, name), least)
        if self.most_training_images is not None:
            _whole("most_training_images", self.most_training_images, least=2)
        _one_of("fidelity_against", self.fidelity_against, ("test", "train"))

    def changed(self, settings: Mapping[str, Any]) -> Protocol:
        """This protocol with other settings, stamped so that nobody takes it for the original."""
        open_to_change = _keys(Protocol) - {"name", "stamp"}
        for key in settings:
            if key not in open_to_change:
                raise UserError(
                    f"protocol setting {key!r} cannot be changed; "
                    f"{did_you_mean(key, open_to_change)}"
                )
        data = {**self.to_json(), **settings}
        if "training" in settings:
            data["training"] = {**asdict(self.training), **settings["training"]}
        note = f"settings changed from the {self.name} protocol: {', '.join(sorted(settings))}"
        changed = Protocol.from_json(data)
        return replace(changed, stamp=note if self.stamp is None else f"{self.stamp}; {note}")

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        for name in ("metrics", "classifiers", "extractors"):
            data[name] = list(data[name])
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Protocol:
        """A protocol from plain values; an error names the first key that is wrong."""
        where = f"protocol {data.get('name')!r}"
        _check_keys(where, data, _keys(Protocol))
        training = data["training"]
        _check_keys(f"{where}, training", training, _keys(Training))
        values = {**data, "training": Training(**training)}
        for name in ("metrics", "classifiers", "extractors"):
            if not isinstance(values[name], list | tuple):
                raise UserError(f"{where}: {name} must be a list of names.")
            values[name] = tuple(values[name])
        return Protocol(**values)


def protocol_names() -> tuple[str, ...]:
    """The protocols that ship with the package."""
    return tuple(_presets())


def load_protocol(name: str | Path) -> Protocol:
    """A shipped protocol by name, or one from a YAML file of the same form.

    >>> load_protocol("reduced").stamp
    'reduced protocol: not comparable with published figures'
    """
    if Path(name).suffix in (".yaml", ".yml"):
        path = Path(name)
        return Protocol.from_json({"name": path.stem, **_read_file(path)})
    presets = _presets()
    if str(name) not in presets:
        raise UserError(f"no protocol {str(name)!r}; {did_you_mean(str(name), presets)}")
    return Protocol.from_json({"name": str(name), **presets[str(name)]})


def _presets() -> dict[str, dict[str, Any]]:
    text = files("understudy.evaluate").joinpath("protocols.yaml").read_text(encoding="utf-8")
    presets: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return presets


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"protocol file {path} cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise UserError(f"protocol file {path} must hold one mapping of settings.")
    return data


def _keys(cls: type[Protocol] | type[Training]) -> frozenset[str]:
    return frozenset(f.name for f in fields(cls))


def _check_keys(where: str, data: Any, known: frozenset[str]) -> None:
    if not isinstance(data, Mapping):
        raise UserError(f"{where} must be a mapping of settings, not {data!r}.")
    for key in data:
        if key not in known:
            raise UserError(f"{where} has no setting {key!r}; {did_you_mean(str(key), known)}")
    for key in sorted(known):
        if key not in data:
            raise UserError(f"{where} lacks the setting {key!r}.")


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def _between(name: str, value: Any, low: float, high: float) -> None:
    if not isinstance(value, int | float) or not low < value < high:
        raise UserError(f"{name} must lie between {low:g} and {high:g}, not {value!r}.")


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"{name} must be {' or '.join(choices)}, not {value!r}.")


def _names(name: str, values: Any) -> None:
    if not all(isinstance(value, str) for value in values) or len(set(values)) != len(values):
        raise UserError(f"{name} must be names, each once, not {list(values)!r}.")
