"""Settings: documented, checked, built from presets and key=value."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from understudy.errors import UserError
from understudy.methods.config import (
    build_config,
    config_to_json,
    describe_config,
    resolve_config,
    setting,
)
from understudy.methods.contract import Method
from understudy.methods.info import MethodInfo
from understudy.methods.presets import UNTUNED, read_presets
from understudy.methods.registry import load_method

PRESETS = """
- tuned_on: nothing
  settings: {steps: 10, rate: 1e-3}
- dataset: mnist
  tuned_on: fashion-mnist
  settings: {steps: 20}
- dataset: mnist
  epsilon_at_least: 5
  tuned_on: fashion-mnist at epsilon 10
  settings: {sizes: [4, 8]}
"""


@dataclass(frozen=True)
class Config:
    steps: int = setting(5, "how many steps", low=1)
    rate: float = setting(0.1, "how fast", low=0.0, high=1.0)
    kind: str = setting("outside", "where", choices=("outside", "inside"))
    average: bool = setting(True, "average the weights")
    sizes: tuple[int, ...] = setting((1, 2), "sizes", low=1)
    cap: float | None = setting(None, "a cap, or none", low=0.0)


class Plain:
    info = MethodInfo(name="plain", summary="", paper="", family="test")
    Config = Config


@pytest.fixture
def method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Method:
    """A third-party method with a preset file beside it."""
    package = tmp_path / "presetpack"
    (package / "presets").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "presets" / "toy.yaml").write_text(PRESETS)
    (package / "toy.py").write_text(
        "from settings_of_toy import Config as Settings, MethodInfo\n"
        "class Toy:\n"
        "    info = MethodInfo(name='toy', summary='', paper='', family='test')\n"
        "    Config = Settings\n"
        "    class Output:\n"
        "        def load(folder): ...\n"
        "    def spend(self, config, facts): ...\n"
        "    def fit(self, config, parts, plan, public, context): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "settings_of_toy", sys.modules[__name__])
    for name in ("presetpack", "presetpack.toy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return load_method("presetpack.toy:Toy")


def test_text_is_read_by_type() -> None:
    values = {
        "steps": "7",
        "rate": "1e-2",
        "kind": "inside",
        "average": "no",
        "sizes": "3,4,5",
        "cap": "none",
    }
    assert build_config(Config, values) == Config(7, 0.01, "inside", False, (3, 4, 5), None)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("steps", "many", "'steps' must be a whole number of at least 1, not 'many'"),
        ("steps", "2.5", "whole number"),
        ("steps", 2.0, "whole number"),
        ("steps", True, "whole number"),
        ("steps", "0", "at least 1"),
        ("rate", "1.5", "a number from 0 to 1"),
        ("rate", "nan", "a number"),
        ("rate", "inf", "a number"),
        ("rate", None, "a number"),
        ("kind", "besides", "one of outside, inside"),
        ("average", "maybe", "true or false"),
        ("sizes", "1,,2", "whole numbers separated by commas"),
        ("sizes", [], "whole numbers"),
        ("sizes", "0,1", "each of at least 1"),
        ("cap", "-1", "at least 0"),
    ],
)
def test_wrong_values_are_refused_in_one_sentence(key: str, value: object, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        build_config(Config, {key: value})
    assert "\n" not in str(caught.value)


def test_unknown_key_suggests_near_ones() -> None:
    with pytest.raises(UserError, match="did you mean steps"):
        build_config(Config, {"step": 3})


def test_every_field_is_described() -> None:
    described = {s.name: s for s in describe_config(Config)}
    assert list(described) == ["steps", "rate", "kind", "average", "sizes", "cap"]
    assert described["rate"].allowed == "a number from 0 to 1"
    assert described["sizes"].help == "sizes"


def test_a_field_without_help_is_an_error_of_the_author() -> None:
    @dataclass(frozen=True)
    class Silent:
        steps: int = 3

    with pytest.raises(TypeError, match="no help"):
        describe_config(Silent)


def test_json_round_trip() -> None:
    config = Config(sizes=(3, 9), cap=2.5)
    assert build_config(Config, config_to_json(config)) == config


def test_presets_are_layered_and_say_what_they_were_tuned_on(method: Method) -> None:
    plain = resolve_config(method)
    assert (plain.config.steps, plain.config.rate, plain.tuned_on) == (10, 1e-3, "nothing")
    mnist = resolve_config(method, "mnist", 1.0)
    assert (mnist.config.steps, mnist.config.sizes) == (20, (1, 2))
    assert mnist.tuned_on == "fashion-mnist"
    loose = resolve_config(method, "mnist", 10.0)
    assert (loose.config.steps, loose.config.sizes) == (20, (4, 8))
    assert loose.preset == "mnist, epsilon 5 or more"
    assert resolve_config(method, "faces", 10.0).preset == "default"


def test_changes_by_hand_win_and_are_named(method: Method) -> None:
    resolved = resolve_config(method, "mnist", 1.0, ["steps = 33", "cap=1"])
    assert (resolved.config.steps, resolved.config.cap) == (33, 1.0)
    assert resolved.changed == ("cap", "steps")


def test_a_preset_can_be_asked_for_by_name_and_that_is_a_choice_by_hand(method: Method) -> None:
    chosen = resolve_config(method, "faces", 10.0, ["cap=1"], "MNIST")
    assert (chosen.preset, chosen.config.sizes) == ("mnist, epsilon 5 or more", (4, 8))
    assert chosen.changed == ("preset", "cap")
    assert resolve_config(method, "mnist", 1.0, preset="default").config.steps == 10
    assert resolve_config(method, None, 1.0, preset=chosen.preset).preset == "mnist"
    assert not chosen.tuned_on_itself
    assert resolve_config(method, "fashion-mnist", 1.0, preset="mnist").tuned_on_itself
    with pytest.raises(UserError, match="no preset 'minst'; did you mean mnist"):
        resolve_config(method, preset="minst")


@pytest.mark.parametrize("change", ["steps", "=3", ""])
def test_a_change_is_key_equals_value(method: Method, change: str) -> None:
    with pytest.raises(UserError, match="key=value"):
        resolve_config(method, changes=[change])


def test_a_method_without_presets_uses_its_defaults() -> None:
    resolved = resolve_config(Plain())  # type: ignore[arg-type]
    assert resolved.config == Config()
    assert resolved.tuned_on == UNTUNED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default: {}", "a list of presets"),
        ("- settings: {steps: 1}", "tuned_on"),
        ("- {tuned_on: x, setings: {}}", "did you mean settings"),
        ("- {tuned_on: x, settings: [1]}", "mapping"),
        ("- [", "not readable YAML"),
    ],
)
def test_a_bad_preset_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "toy.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        read_presets(file)
