"""Protocols: the shipped ones, files, changes, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from understudy.errors import UserError
from understudy.evaluation.metric_registry import EXTRACTORS, METRICS
from understudy.evaluation.protocol import Protocol, load_protocol, protocol_names
from understudy.evaluation.selection import RULES
from understudy.nets.classifiers import CLASSIFIERS


@pytest.mark.parametrize("name", protocol_names())
def test_the_shipped_protocols_name_only_what_exists(name: str) -> None:
    protocol = load_protocol(name)
    assert protocol.name == name
    assert set(protocol.metrics) <= set(METRICS)
    assert set(protocol.classifiers) <= set(CLASSIFIERS)
    assert set(protocol.extractors) <= set(EXTRACTORS)
    assert Protocol.from_json(protocol.to_json()) == protocol


def test_our_own_protocols_come_first_and_only_the_reduced_one_is_stamped() -> None:
    assert protocol_names()[:3] == ("standard", "reduced", "full")
    assert load_protocol("reduced").stamp == (
        "reduced protocol: not comparable with published figures"
    )
    assert load_protocol("standard").stamp is None
    assert load_protocol("full").stamp is None
    assert "resnet18" in load_protocol("full").classifiers


@pytest.mark.parametrize("name", protocol_names())
def test_whoever_chooses_on_real_records_says_so(name: str) -> None:
    """By name, by stamp, and never without the sound figure beside it."""
    protocol = load_protocol(name)
    peeks = protocol.selection in ("test", "private-validation", "noised-validation")
    assert protocol.benchmark_only == peeks
    assert peeks == any(word in name for word in ("-test-selected", "-validation"))
    assert ("never releasable" in (protocol.stamp or "")) == peeks
    assert protocol.selections[-1] == ("last-epoch" if "lenet" in name else "held-out")


def test_dpimagebench_is_trained_as_its_code_does() -> None:
    protocol = load_protocol("dpimagebench")
    training = protocol.training
    assert protocol.classifiers == ("resnet-110", "wrn-40-4", "resnext-29-8-4")
    assert (training.epochs, training.batch_size) == (50, 256)
    assert (training.optimiser, training.learning_rate) == ("adam", 0.01)
    assert (training.step_epochs, training.step_factor) == (20, 0.2)
    assert (training.averaging, training.weight_decay) == (0.9999, 0)
    assert round(training.holdout * 60000) == 5000
    for mode in ("validation", "noised-validation", "test-selected"):
        other = load_protocol(f"dpimagebench-{mode}")
        assert (other.training, other.classifiers) == (training, protocol.classifiers)
    cifar = load_protocol("dpimagebench-cifar")
    assert (cifar.training.epochs, cifar.training.batch_size) == (200, 126)
    assert (cifar.training.optimiser, cifar.training.step_epochs) == ("sgd", 60)


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


def test_a_change_to_a_rule_that_peeks_stamps_itself() -> None:
    changed = load_protocol("reduced").changed({"selection": "test"})
    assert changed.benchmark_only
    assert changed.stamp == (
        "reduced protocol: not comparable with published figures; "
        "chosen on the test set: a benchmark's figure, never releasable; "
        "settings changed from the reduced protocol: selection"
    )
    assert load_protocol("reduced").changed({"summaries": ["best-on-test"]}).benchmark_only
    assert not load_protocol("reduced").changed({"summaries": ["best"]}).benchmark_only


def test_a_file_that_peeks_without_saying_so_is_refused(tmp_path: Path) -> None:
    settings = load_protocol("standard").to_json() | {"selection": "test"}
    path = tmp_path / "quiet.yaml"
    path.write_text(yaml.safe_dump(settings))
    with pytest.raises(UserError, match="stamp of protocol 'standard' must say: chosen on the"):
        load_protocol(path)
    path.write_text(yaml.safe_dump(settings | {"stamp": f"mine; {RULES['test'].stamp}"}))
    assert load_protocol(path).selections == ("test", "held-out")


def test_files_written_before_selections_were_named_are_read() -> None:
    data = load_protocol("standard").to_json()
    for key in ("selection", "summaries", "selection_epsilon", "validation_images", "source"):
        del data[key]
    for key in ("momentum", "averaging", "patience", "pixel_mean", "pixel_deviation"):
        del data["training"][key]
    assert Protocol.from_json(data) == load_protocol("standard")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"selection": "tset"}, r"no selection 'tset'; did you mean test\?"),
        ({"selection": ["test"]}, "no selection"),
        ({"summaries": ["bets"]}, r"no summary 'bets'; did you mean best\?"),
        ({"selection": "last-epoch", "summaries": ["best"]}, "needs a selection that scores"),
        ({"selection_epsilon": 1.0}, "selection_epsilon has no meaning with selection 'held-out'"),
        ({"selection": "noised-validation", "validation_images": 5}, "selection_epsilon must lie"),
        ({"selection": "private-validation"}, "validation_images must be a whole number"),
        ({"validation_images": 5}, "validation_images has no meaning"),
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
        ({"holdout": 0}, "training.holdout must be more than 0 with selection 'held-out'"),
        ({"holdout": 1}, "training.holdout must be 0 or more and less than 1"),
        ({"averaging": 1.0}, "training.averaging must lie between 0 and 1"),
        ({"patience": 0}, "training.patience must be a whole number"),
        ({"pixel_deviation": 0}, "training.pixel_deviation"),
        ({"learning_rate": -1.0}, "training.learning_rate"),
        ({"weight_decay": -1.0}, "training.weight_decay"),
        ({"optimiser": "lion"}, "training.optimiser must be adamw or adam or sgd"),
        ({"schedule": "step"}, "training.step_epochs"),
    ],
)
def test_wrong_training_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_protocol("standard").changed({"training": change})


def test_patience_without_a_choice_is_refused() -> None:
    with pytest.raises(UserError, match="patience has no meaning with selection 'last-epoch'"):
        load_protocol("gs-wgan-lenet").changed({"training": {"patience": 3}})


def test_unknown_names_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no protocol 'standart'; did you mean standard\?"):
        load_protocol("standart")
    with pytest.raises(UserError, match="did you mean dpimagebench or dpimagebench-test-selected"):
        load_protocol("dpimagebench-test")
    (tmp_path / "deep.yaml").write_text("{" * 100_000)
    with pytest.raises(UserError, match="nested too deeply"):
        load_protocol(tmp_path / "deep.yaml")
    with pytest.raises(UserError, match="cannot be read as YAML"):
        load_protocol(tmp_path / "absent.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("- 1\n- 2\n")
    with pytest.raises(UserError, match="must hold one mapping"):
        load_protocol(broken)
