"""What is measured and how: the settings that make two evaluations comparable.

A protocol is data (`protocols.yaml`, or a file of the same form), so that a benchmark's
protocol is added without code unless it names a classifier or an extractor that does not
exist yet. Two rows may be compared when their protocols are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from understudy.errors import UserError, did_you_mean
from understudy.evaluation.selection import (
    BEST,
    HELD_OUT,
    RULES,
    SUMMARIES,
    Rule,
    required_stamps,
)

_LISTS = ("metrics", "classifiers", "extractors", "summaries")


@dataclass(frozen=True)
class ClassifierTraining:
    """How a classifier is trained; the same on synthetic and on real records.

    epochs: passes over the training records.
    least_steps: small sets get more passes, until there are at least this many steps.
    optimiser: `adamw`; `adam`, whose weight decay is a penalty in the loss; or `sgd`.
    schedule: `cosine` to zero over the whole training; `step`: the rate is multiplied by
        `step_factor` after every `step_epochs` epochs; or `constant`.
    holdout: the share of the given training set that is not trained on and only chooses the
        epoch; 0 where nothing is chosen.
    momentum: of `sgd`.
    averaging: the decay of a running average of the weights, which is then what is scored
        (early steps count more; statistics of normalisation are those of the last step), or
        None for the weights themselves.
    patience: stop after so many epochs without a better held-out accuracy (or an equal one
        with a lower loss), or None.
    pixel_mean, pixel_deviation: pixels in [0, 1] are standardised by these; 0.5 and 0.5 give
        [-1, 1].
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
    momentum: float = 0.9
    averaging: float | None = None
    patience: int | None = None
    pixel_mean: float = 0.5
    pixel_deviation: float = 0.5

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            _whole(f"training.{name}", getattr(self, name), least=1)
        _whole("training.least_steps", self.least_steps, least=0)
        _between("training.learning_rate", self.learning_rate, 0.0, 10.0)
        for name in ("holdout", "momentum", "pixel_mean"):
            _share(f"training.{name}", getattr(self, name))
        _between("training.pixel_deviation", self.pixel_deviation, 0.0, 10.0)
        if not isinstance(self.weight_decay, int | float) or self.weight_decay < 0:
            raise UserError(f"training.weight_decay must be 0 or more, not {self.weight_decay!r}.")
        _one_of("training.optimiser", self.optimiser, ("adamw", "adam", "sgd"))
        _one_of("training.schedule", self.schedule, ("cosine", "step", "constant"))
        if self.schedule == "step":
            _whole("training.step_epochs", self.step_epochs, least=1)
            _between("training.step_factor", self.step_factor, 0.0, 1.0)
        if self.averaging is not None:
            _between("training.averaging", self.averaging, 0.0, 1.0)
        if self.patience is not None:
            _whole("training.patience", self.patience, least=1)


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
    selection: the rule of `selection.py` that chooses a classifier's epoch. A rule that looks
        at other real records, the test set say, must be named in the stamp.
    summaries: figures over all classifiers: `mean`, `best`, `best-on-test`.
    selection_epsilon: Laplace noise of scale 1 / this, where the rule is noised.
    validation_images: how many real training records choose, where the rule asks them.
    real_reference: whether each classifier is also trained on real records, for reference.
    source: where the settings come from, and how ours differ.
    """

    name: str
    stamp: str | None
    metrics: tuple[str, ...]
    classifiers: tuple[str, ...]
    seeds: int
    training: ClassifierTraining
    most_training_images: int | None
    extractors: tuple[str, ...]
    fidelity_images: int
    fidelity_against: str
    neighbours: int
    kernel_block: int
    selection: str = HELD_OUT
    summaries: tuple[str, ...] = ()
    selection_epsilon: float | None = None
    validation_images: int | None = None
    real_reference: bool = True
    source: str | None = None

    def __post_init__(self) -> None:
        for name in _LISTS:
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
        self._check_selection()
        self._check_stamp()

    @property
    def rule(self) -> Rule:
        """How the epoch of the headline figures is chosen."""
        return RULES[self.selection]

    @property
    def selections(self) -> tuple[str, ...]:
        """The rules that are reported, the sound one last: a benchmark's never stands alone."""
        return (self.selection, HELD_OUT) if self.rule.benchmark_only else (self.selection,)

    @property
    def benchmark_only(self) -> bool:
        """Whether some figure of it was chosen on real records: such figures go nowhere else."""
        return bool(required_stamps(self.selection, self.summaries))

    def classifier_seeds(self, seed: int) -> tuple[int, ...]:
        """Of an evaluation with this seed; two with different seeds share none."""
        return tuple(1000 * seed + index for index in range(self.seeds))

    def _check_selection(self) -> None:
        _known("selection", self.selection, RULES)
        for name in self.summaries:
            _known("summary", name, SUMMARIES)
        rule = self.rule
        if rule.has_score and self.training.holdout == 0:
            raise UserError(
                f"training.holdout must be more than 0 with selection {rule.name!r}; only "
                "last-epoch needs no held-out records."
            )
        if self.training.patience is not None and not rule.has_score:
            raise UserError(f"training.patience has no meaning with selection {rule.name!r}.")
        if BEST in self.summaries and not rule.has_score:
            raise UserError(f"summary 'best' needs a selection that scores, not {rule.name!r}.")
        _only_if(rule.noised, "selection_epsilon", self.selection_epsilon, rule.name)
        if rule.noised:
            _between("selection_epsilon", self.selection_epsilon, 0.0, 1000.0)
        asks = rule.looks_at == "validation"
        _only_if(asks, "validation_images", self.validation_images, rule.name)
        if asks:
            _whole("validation_images", self.validation_images, least=1)

    def _check_stamp(self) -> None:
        for words in required_stamps(self.selection, self.summaries):
            if words not in (self.stamp or ""):
                raise UserError(f"the stamp of protocol {self.name!r} must say: {words}.")

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
        said = self.stamp or ""
        selection, summaries = data["selection"], tuple(data["summaries"])
        due = required_stamps(selection, summaries) if str(selection) in RULES else ()
        words = [said, *(due_words for due_words in due if due_words not in said), note]
        return Protocol.from_json({**data, "stamp": "; ".join(filter(None, words))})

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        for name in _LISTS:
            data[name] = list(data[name])
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Protocol:
        """A protocol from plain values; an error names the first key that is wrong."""
        where = f"protocol {data.get('name')!r}"
        _check_keys(where, data, Protocol)
        training = data["training"]
        _check_keys(f"{where}, training", training, ClassifierTraining)
        values = {**data, "training": ClassifierTraining(**training)}
        for name in _LISTS:
            values.setdefault(name, ())
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
    import yaml  # here, because a protocol that came as JSON is used where there is none

    text = files("understudy.evaluation").joinpath("protocols.yaml").read_text(encoding="utf-8")
    presets: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return presets


def _read_file(path: Path) -> dict[str, Any]:
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"protocol file {path} cannot be read as YAML: {error}") from error
    except RecursionError as error:
        raise UserError(f"{path} is nested too deeply to be a protocol.") from error
    if not isinstance(data, dict):
        raise UserError(f"protocol file {path} must hold one mapping of settings.")
    return data


def _keys(cls: type[Protocol] | type[ClassifierTraining]) -> frozenset[str]:
    return frozenset(f.name for f in fields(cls))


def _check_keys(where: str, data: Any, cls: type[Protocol] | type[ClassifierTraining]) -> None:
    known = _keys(cls)
    if not isinstance(data, Mapping):
        raise UserError(f"{where} must be a mapping of settings, not {data!r}.")
    for key in data:
        if key not in known:
            raise UserError(f"{where} has no setting {key!r}; {did_you_mean(str(key), known)}")
    for key in sorted(f.name for f in fields(cls) if f.default is MISSING):
        if key not in data:
            raise UserError(f"{where} lacks the setting {key!r}.")


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def _between(name: str, value: Any, low: float, high: float) -> None:
    if not isinstance(value, int | float) or not low < value < high:
        raise UserError(f"{name} must lie between {low:g} and {high:g}, not {value!r}.")


def _share(name: str, value: Any) -> None:
    if not isinstance(value, int | float) or not 0 <= value < 1:
        raise UserError(f"{name} must be 0 or more and less than 1, not {value!r}.")


def _known(name: str, value: Any, names: Mapping[str, Any]) -> None:
    if not isinstance(value, str) or value not in names:
        raise UserError(f"no {name} {value!r}; {did_you_mean(str(value), names)}")


def _only_if(needed: bool, name: str, value: Any, rule: str) -> None:
    if value is not None and not needed:
        raise UserError(f"{name} has no meaning with selection {rule!r}; leave it out.")


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"{name} must be {' or '.join(choices)}, not {value!r}.")


def _names(name: str, values: Any) -> None:
    if not all(isinstance(value, str) for value in values) or len(set(values)) != len(values):
        raise UserError(f"{name} must be names, each once, not {list(values)!r}.")
