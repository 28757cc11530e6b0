"""Rules: entries by declared facts, laid upon each other; what is wrong in a file is named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.methods.bench import facts_of, stripes
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.methods.config import setting
from understudy.methods.contract import Facts, Forecasting
from understudy.methods.info import MethodInfo
from understudy.methods.machines import machines
from understudy.methods.registry import get_method, method_names
from understudy.methods.rules import Measures, Rule, Share, Stretch, find_rule, read_rule

RULES = """
- tuned_on: small pictures
  settings: {width: 8, rate: 0.1}
  shares: {batch: {of_units: 0.25, least: 10, most: 100}}
  rungs: [{steps: 10}, {steps: 40, width: 16}]
  stretch: {setting: steps, most: 3}
- when: {channels: 3}
  tuned_on: colour
  settings: {rate: 0.2}
- when: {units: [1000, null], epsilon: [null, 2]}
  tuned_on: many, for little
  shares: {batch: {of_units: 0.5}}
  rungs: [{steps: 100}]
- when: {classes: 2}
  tuned_on: small pictures
"""


@dataclass(frozen=True)
class Config:
    steps: int = setting(5, "how many", low=1)
    batch: int = setting(4, "at once", low=1)
    width: int = setting(4, "how wide", low=1)
    rate: float = setting(0.5, "how fast", low=0.0)


class Ruled:
    info = MethodInfo(name="ruled", summary="", paper="", family="test")
    Config = Config


USUAL = Measures(channels=1, side=8, classes=3, units=40, per_class=13.3, epsilon=1.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ruled.yaml"
    path.write_text(RULES)
    return path


def rule_of(file: Path, **measures: float) -> Rule:
    found = read_rule(file, replace(USUAL, **measures))
    assert found is not None
    return found


def config_of(rule: Rule, units: int = 40, rung: int = 0, **changes: str) -> Config:
    facts = facts_of(stripes(3), count=units)
    made = rule.config(Ruled(), facts, rung, changes)  # type: ignore[arg-type]
    assert isinstance(made, Config)
    return made


def test_what_is_declared_is_measured() -> None:
    schema = Schema((Attribute("label", ("a", "b", "c", "d")),), label="label")
    facts = Facts(100, {"teacher": 60, "rest": 20}, (3, 20, 30), schema)
    expected = Measures(channels=3, side=30, classes=4, units=80, per_class=20, epsilon=2.0)
    assert Measures.of(facts, 2.0) == expected
    assert Measures.of(facts, None).epsilon > 1e6, "no budget is a very large one"


def test_entries_are_laid_upon_each_other(file: Path) -> None:
    plain, colour = rule_of(file), rule_of(file, channels=3)
    assert (plain.settings, plain.tuned_on) == ({"width": 8, "rate": 0.1}, "small pictures")
    assert colour.settings == {"width": 8, "rate": 0.2}
    assert colour.rungs == plain.rungs
    assert colour.stretch == plain.stretch == Stretch("steps", 3)
    both = rule_of(file, channels=3, units=1000)
    assert both.settings == colour.settings
    assert both.rungs == ({"steps": 100},), "the last rungs replace those before"
    assert both.shares == {"batch": Share(0.5)}


def test_the_words_of_every_entry_are_kept_once(file: Path) -> None:
    """A dataset that any of them names was looked at; the claim must be able to say so."""
    assert rule_of(file, channels=3, units=1000).tuned_on == (
        "small pictures; colour; many, for little"
    )
    assert rule_of(file, classes=2).tuned_on == "small pictures"


@pytest.mark.parametrize(
    ("measures", "held"),
    [
        ({"units": 999}, False),
        ({"units": 1000}, True),
        ({"units": 1e9}, True),
        ({"units": 1000, "epsilon": 1.99}, True),
        ({"units": 1000, "epsilon": 2.0}, False),
    ],
)
def test_of_two_ends_the_first_belongs_to_it(
    file: Path, measures: dict[str, float], held: bool
) -> None:
    assert ("many" in rule_of(file, **measures).tuned_on) == held


def test_where_no_entry_holds_there_is_no_rule(tmp_path: Path) -> None:
    path = tmp_path / "ruled.yaml"
    path.write_text("- {tuned_on: colour, when: {channels: 3}}")
    assert read_rule(path, USUAL) is None
    path.write_text("- {tuned_on: anything}")
    assert read_rule(path, USUAL) == Rule("anything")


def test_shares_follow_the_units(file: Path) -> None:
    rule = rule_of(file)
    assert [config_of(rule, units).batch for units in (8, 40, 200, 1000)] == [8, 10, 50, 100]
    assert Share(0.5).of(3) == 2
    assert Share(0.001).of(10) == 1, "a share is never nothing"


def test_rungs_come_over_settings_and_changes_by_hand_over_all(file: Path) -> None:
    rule = rule_of(file)
    assert config_of(rule) == Config(steps=10, batch=10, width=8, rate=0.1)
    assert config_of(rule, rung=1) == Config(steps=40, batch=10, width=16, rate=0.1)
    by_hand = config_of(rule, rung=1, width="5", batch="7")
    assert by_hand == Config(steps=40, batch=7, width=5, rate=0.1)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("- {settings: {}}", "tuned_on"),
        ("- 3", "a mapping that says `tuned_on`"),
        ("- {tuned_on: x, setings: {}}", "'setings' is not a key; did you mean settings"),
        ("- {tuned_on: x, when: {chanels: 1}}", "'chanels' is not a condition; did you mean chann"),
        ("- {tuned_on: x, when: [1]}", "'when' must be a dict"),
        ("- {tuned_on: x, when: null}", "'when' must be a dict"),
        ("- {tuned_on: x, when: {units: [1]}}", "'units' takes a value or two ends"),
        ("- {tuned_on: x, when: {units: [a, 3]}}", "'units' takes a value or two ends"),
        ("- {tuned_on: x, rungs: [3]}", "a rung holds settings by name"),
        ("- {tuned_on: x, shares: {batch: {of_units: a}}}", "a share takes of_units, least, most"),
        ("- {tuned_on: x, stretch: {setting: steps, most: a}}", "stretch takes setting, most"),
        ("- {tuned_on: x, rungs: {steps: 3}}", "'rungs' must be a list"),
        ("- {tuned_on: x, settings: [3]}", "'settings' must be a dict"),
        ("- {tuned_on: x, shares: {batch: 0.1}}", "a share takes of_units, least, most"),
        ("- {tuned_on: x, shares: {batch: {of: 0.1}}}", "a share takes of_units, least, most"),
        ("- {tuned_on: x, stretch: {settings: steps, most: 2}}", "stretch takes setting, most"),
        ("tuned_on: x", "must hold a list of rules"),
        ("- {tuned_on: [x", "not readable YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "ruled.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"rule file ruled\.yaml") as caught:
        read_rule(path, USUAL)
    assert named in str(caught.value)


def test_a_setting_that_the_method_does_not_have_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ruled.yaml"
    path.write_text("- {tuned_on: x, settings: {widht: 3}}")
    with pytest.raises(UserError, match=r"widht.*did you mean width"):
        config_of(rule_of(path))


SHAPES = ((1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64))
UNITS = (40, 300, 3000, 60_000)


def facts_like(shape: tuple[int, ...], units: int, classes: int) -> Facts:
    names = tuple(str(i) for i in range(classes))
    schema = Schema((Attribute("label", names),), label="label")
    return Facts(units, {"train": units}, shape, schema)


@pytest.mark.parametrize("name", method_names())
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rules_that_ship_build_and_go_from_the_cheapest_to_the_dearest(
    name: str, shape: tuple[int, ...]
) -> None:
    method = get_method(name)
    for units in UNITS:
        facts = facts_like(shape, units, classes=2 if units < 1000 else 10)
        for epsilon in (0.5, 1.0, 10.0):
            rule = find_rule(method, facts, epsilon)
            if rule is None:
                continue
            assert isinstance(method, Forecasting), "without loops no rule can be followed"
            configs = [rule.config(method, facts, rung) for rung in range(len(rule.rungs))]
            told = [method.loops(config, facts, units) for config in configs]
            if rule.stretch is not None:
                assert rule.stretch.setting in {loop.setting for loop in told[0]}
                assert rule.stretch.most >= 1
            for machine in machines().values():
                seconds = [machine.pace(loops).seconds(loops) for loops in told]
                assert seconds == sorted(seconds), f"{machine.name}: {units} units of {shape}"


def test_some_rules_ship() -> None:
    """So that the test above does not pass by looking at none."""
    facts = facts_like((1, 28, 28), 3000, 10)
    assert find_rule(get_method("dp-merf"), facts, 1.0) is not None
