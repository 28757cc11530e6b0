"""Protocols: the shipped ones, files, changes, and what is refused."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest
import yaml

from understudy.errors import UserError
from understudy.evaluate import protocol as protocol_module
from understudy.evaluate.protocol import Protocol, load_protocol, protocol_names
from understudy.evaluate.registry import EXTRACTORS, METRICS
from understudy.nets.classifiers import CLASSIFIERS


def test_the_shipped_protocols_name_only_what_exists() -> None:
    assert protocol_names() == ("standard", "reduced", "full")
    for name in protocol_names():
        protocol = load_protocol(name)
        assert protocol.name == name
        assert set(protocol.metrics) <= set(METRICS)
        assert set(protocol.classifiers) <= set(CLASSIFIERS)
        assert set(protocol.extractors) <= set(EXTRACTORS)


def test_only_the_reduced_protocol_is_stamped() -> None:
    assert load_protocol("reduced").stamp == (
        "reduced protocol: not comparable with published figures"
    )
    assert load_protocol("standard").stamp is None
    assert load_protocol("full").stamp is None
    assert "resnet18" in load_protocol("full").classifiers


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(protocol_module) == doctest.TestResults(failed=0, attempted=1)


def test_a_protocol_survives_json() -> None:
    protocol = load_protocol("full")
    assert Protocol.from_json(protocol.to_json()) == protocol


def test_a_benchmarks_protocol_is_only_a_file(tmp_path: Path) -> None:
    """Fifty epochs with a stepped rate, compared with the training part: nothing but data."""
    settings = load_protocol("standard").to_json()
    del settings["name"]
    settings["fidelity_against"] = "train"
    settings["training"] |= {
        "epochs": 50,
        "schedule": "step",
        "step_epochs": 20,
        "step_factor": 0.2,
    }
    path = tmp_path / "bench-a.yaml"
    path.write_text(yaml.safe_dump(settings))
    protocol = load_protocol(path)
    assert protocol.name == "bench-a"
    assert protocol.training.step_epochs == 20


def test_changed_settings_are_stamped() -> None:
    standard = load_protocol("standard")
    changed = standard.changed({"seeds": 1, "training": {"epochs": 1}})
    assert changed.seeds == 1
    assert changed.training.epochs == 1
    assert changed.training.batch_size == standard.training.batch_size
    assert changed.stamp == "settings changed from the standard protocol: seeds, training"
    again = load_protocol("reduced").changed({"seeds": 1}).stamp
    assert again is not None
    assert again.startswith("reduced protocol: not comparable")
    with pytest.raises(UserError, match="'stamp' cannot be changed"):
        standard.changed({"stamp": None})
    with pytest.raises(UserError, match=r"'sedes' cannot be changed; did you mean seeds\?"):
        standard.changed({"sedes": 3})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds must be a whole number of at least 1"),
        ({"seeds": "three"}, "seeds must be a whole number"),
        ({"seed": 3}, r"no setting 'seed'; did you mean seeds\?"),
        ({"classifiers": "cnn"}, "classifiers must be a list of names"),
        ({"classifiers": ["cnn", "cnn"]}, "each once"),
        ({"most_training_images": 1}, "most_training_images"),
        ({"fidelity_against": "holdout"}, "fidelity_against must be test or train"),
        ({"training": 4}, "training must be a mapping"),
        ({"training": {}}, "training lacks the setting 'batch_size'"),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Protocol.from_json({**load_protocol("standard").to_json(), **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "training.epochs"),
        ({"holdout": 0}, "training.holdout must lie between 0 and 1"),
        ({"learning_rate": -1.0}, "training.learning_rate"),
        ({"weight_decay": -1.0}, "training.weight_decay"),
        ({"optimiser": "lion"}, "training.optimiser must be adamw or sgd"),
        ({"schedule": "step"}, "training.step_epochs"),
    ],
)
def test_wrong_training_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_protocol("standard").changed({"training": change})


def test_unknown_names_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no protocol 'standart'; did you mean standard\?"):
        load_protocol("standart")
    with pytest.raises(UserError, match="cannot be read as YAML"):
        load_protocol(tmp_path / "absent.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("- 1\n- 2\n")
    with pytest.raises(UserError, match="must hold one mapping"):
        load_protocol(broken)
