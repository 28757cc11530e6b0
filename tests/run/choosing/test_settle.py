"""What a run leaves open is decided once, from declared facts, and written down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import understudy
from tests import drawing
from tests.bench.rig import cell
from tests.workplace import Workplace
from understudy.bench.away.pack import pack
from understudy.bench.work.workspace import Workspace
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.methods.config import BY_RULE, fitted_config, resolve_config
from understudy.methods.machines import CPU, machine
from understudy.methods.pace import Pace
from understudy.methods.presets import find_presets
from understudy.methods.ranking import Ranking
from understudy.methods.registry import get_method, method_names
from understudy.methods.rules import Rule, Stretch
from understudy.progress import Silent
from understudy.run import audit, prepare
from understudy.run.choosing import candidates, expected, settle
from understudy.run.choosing.candidates import Form
from understudy.run.choosing.fitting import ByRates
from understudy.run.choosing.settle import Settled, in_words, settled
from understudy.run.choosing.trial import Tried
from understudy.run.config import RECOMMENDED, RunConfig, read_config

FORM = Form(None, 40, 34, (1, 8, 8), Schema((Attribute("label", ("a", "b")),), label="label"))
DIGITS = replace(FORM, dataset="digits", count=1438, learnt=1438)

SMALL = Rule(
    "a rule of the tests",
    settings={"features": 40, "width": 16, "latent": 4, "batch": 20, "features_per_step": 20},
    rungs=({"steps": 4}, {"steps": 8}),
    stretch=Stretch("steps", 2),
)
"""Settings of a moment, however the rules that ship change."""


@pytest.fixture(autouse=True)
def _small_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "find_rule", lambda method, *_: _rule_for(method))


def _rule_for(method: Any) -> Rule | None:
    return SMALL if method.info.name == "dp-merf" else None


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Tried]:
    """Trials that take no time and say that a step takes a second, with what was tried."""
    asked: list[Tried] = []

    def trial(one: Tried, guess: Pace, progress: Any = None) -> Pace:
        del guess, progress
        asked.append(one)
        return Pace(0.0, {loop.bar: 1.0 for loop in one.loops}, tried=True)

    for module in (settle, expected):
        monkeypatch.setattr(module, "quick_trial", trial)
    return asked


@pytest.fixture
def no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_trials(monkeypatch)


def refuse_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    never = mock.Mock(side_effect=AssertionError("settings were tried"))
    for module in (settle, expected):
        monkeypatch.setattr(module, "quick_trial", never)


def refuse_deciding(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_trials(monkeypatch)
    never = mock.Mock(side_effect=AssertionError("decided anew"))
    for name in ("rule_for", "find_candidates", "fit_into"):
        monkeypatch.setattr(settle, name, never)


NO_TRIAL = pytest.mark.usefixtures("no_trial")


def config(**more: Any) -> RunConfig:
    return replace(RunConfig("photos", "dp-merf", 1.0, device="cpu"), **more)


def decided(form: Form = FORM, **more: Any) -> Settled:
    found = settled(config(**more), form, Silent())
    assert found.config.is_settled
    return found


def settings_of(found: Settled) -> dict[str, str]:
    return dict(word.split("=", 1) for word in found.config.fitted)


def words_of(settings: Any) -> dict[str, str]:
    return dict(word.split("=", 1) for word in in_words(settings))


class TestByRule:
    @NO_TRIAL
    def test_for_a_kind_of_machine_it_is_the_same_at_every_call(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow = mock.Mock(side_effect=AssertionError("this machine was looked at"))
        monkeypatch.setattr(settle, "slower_here", slow)
        first, second = (decided(device_kind="cpu") for _ in range(2))
        assert first == second
        assert settings_of(first)["steps"] == "16", "the dearest rung, as long as may be"
        assert first.config.fitted_on == "a rule of the tests"
        assert first.tried is None
        (words,) = first.said
        assert words.startswith("settings by rule for 10 minutes on two processor cores: about ")

    def test_here_it_is_tried(self, tried: list[Tried]) -> None:
        found = decided(time=10.0)
        (one,) = tried
        assert (one.facts, one.samples) == (FORM.facts(get_method("dp-merf")), 34)
        assert settings_of(found)["steps"] == "9", "nine seconds, one a step"
        assert found.tried == 9.0
        assert found.said == ("settings by rule for 10 s here: about 9 s.",)

    @NO_TRIAL
    def test_a_length_by_hand_needs_no_trial(self) -> None:
        found = decided(changes=("steps=3",))
        assert settings_of(found)["steps"] == "3"
        assert found.tried is None

    @pytest.mark.usefixtures("tried")
    def test_where_nothing_fits_it_says_so(self) -> None:
        tail = "; no settings of dp-merf for such data take less."
        assert not any(tail in line for line in decided(time=2.0).said)
        assert settings_of(decided(time=1.0))["steps"] == "1", "a quarter"
        slow = decided(time=1.0, changes=("width=32", "steps=100000000"))
        (line,) = slow.said
        assert "no settings of dp-merf for such data with this --set take less" in line

    def test_the_number_of_samples_counts(self, tried: list[Tried]) -> None:
        decided(samples=5000)
        assert tried[0].samples == 5000

    @NO_TRIAL
    def test_what_no_settings_could_mend_is_refused_before_a_trial(self) -> None:
        with pytest.raises(UserError, match="dp-merf takes images"):
            decided(replace(FORM, shape=(1, 300, 300)))
        with pytest.raises(UserError, match="no setting 'stepz'; did you mean steps"):
            decided(changes=("stepz=3",))


class TestPresets:
    @pytest.mark.parametrize(
        "given",
        [{"time": None}, {"preset": "default", "time": None}, {"fitted": ("steps=3",)}],
    )
    @NO_TRIAL
    def test_what_is_decided_stays(self, given: dict[str, Any]) -> None:
        asked = config(**given)
        assert settled(asked, FORM, Silent()) == Settled(asked)

    @NO_TRIAL
    def test_a_preset_by_name_has_no_time(self) -> None:
        """Given from Python with the usual time, it is the run that the command line begins."""
        assert decided(preset="default") == Settled(config(preset="default", time=None))

    @NO_TRIAL
    def test_a_method_without_rules_takes_its_preset(self) -> None:
        found = decided(method="dpdm")
        assert found == Settled(config(method="dpdm", time=None))

    @NO_TRIAL
    def test_a_method_that_says_nothing_of_its_loops_takes_its_preset_too(self) -> None:
        method = mock.Mock(spec=["info", "Config", "spend"])
        rates = ByRates(machine(CPU))
        assert candidates.rule_for(method, config(), FORM, 600.0, rates) == (None, None)

    @NO_TRIAL
    def test_a_preset_for_these_data_is_taken_where_there_is_time(self) -> None:
        found = decided(DIGITS, device_kind="cpu")
        assert found == Settled(config(device_kind="cpu", time=None))

    @NO_TRIAL
    def test_one_that_takes_a_little_longer_gets_fewer_rounds(self) -> None:
        method = get_method("dp-merf")
        preset = resolve_config(method, "digits", 1.0).config
        loops = method.loops(preset, DIGITS.facts(method), 1438)  # type: ignore[attr-defined]
        whole = machine(CPU).pace(loops).seconds(loops)
        found = decided(DIGITS, device_kind="cpu", time=0.8 * whole)
        settings = settings_of(found)
        assert preset.steps / 2 < int(settings.pop("steps")) < preset.steps
        assert settings == {k: v for k, v in words_of(preset).items() if k != "steps"}
        assert found.said[0].endswith("it gets fewer rounds (--preset digits takes all).")
        assert "fewer rounds by time" in (found.config.fitted_on or "")

    @NO_TRIAL
    def test_and_else_the_rule_and_how_to_have_it_nevertheless(self) -> None:
        found = decided(DIGITS, device_kind="cpu", time=1.0, changes=("batch=1000",))
        assert settings_of(found)["features"] == "40"
        instead, words = found.said
        assert instead.startswith("the preset for digits would take about ")
        assert instead.endswith("settings by rule instead (--preset digits takes it).")
        assert words.startswith("settings by rule for 1 s")

    @NO_TRIAL
    def test_a_preset_for_other_data_is_not(self) -> None:
        assert decided(replace(DIGITS, dataset="svhn"), device_kind="cpu").config.fitted


class TestRecommended:
    @NO_TRIAL
    def test_the_first_that_can_be_used_and_why(self) -> None:
        found = decided(method=RECOMMENDED, device_kind="cpu")
        assert found.config.method in method_names()
        words = found.said[0]
        assert words.startswith(f"method: {found.config.method}, recommended for such data: ")
        assert decided(method=RECOMMENDED, device_kind="cpu") == found

    @NO_TRIAL
    def test_it_takes_a_preset_by_name(self) -> None:
        found = decided(DIGITS, method=RECOMMENDED, preset="digits")
        assert found.config.preset == "digits"
        assert not found.config.fitted

    def test_without_a_budget_none_is(self, tmp_path: Path) -> None:
        photos = drawing.class_folder(tmp_path / "photos")
        with pytest.raises(UserError, match="give --epsilon"):
            understudy.preview(RunConfig(str(photos)), home=tmp_path / "home")

    def test_where_none_can_be_used_every_reason_is_told(self) -> None:
        with pytest.raises(UserError, match="no method can be used") as caught:
            decided(method=RECOMMENDED, weights=("taef2",))
        assert all(f"{name}: takes no weights" in str(caught.value) for name in ("dpdm", "dp-merf"))


@pytest.mark.parametrize("name", method_names())
def test_settings_in_words_are_read_as_they_were(name: str) -> None:
    """The words stand in `config.yaml`; a run that goes on must find the same settings."""
    method = get_method(name)
    datasets = {None, *(preset.dataset for preset in find_presets(method).entries)}
    for dataset in datasets:
        for epsilon in (1.0, 10.0):
            chosen = resolve_config(method, dataset, epsilon).config
            again = fitted_config(method, None, in_words(chosen), "anything").config
            assert again == chosen


@pytest.mark.parametrize("words", ["made on digits", "made on mnist; looked at digits too"])
def test_settings_that_were_made_on_these_data_are_tuned_on_themselves(words: str) -> None:
    method = get_method("dp-merf")
    assert fitted_config(method, "digits", ("steps=3",), words).tuned_on_itself
    assert not fitted_config(method, "svhn", ("steps=3",), words).tuned_on_itself
    assert not fitted_config(method, None, ("steps=3",), words).tuned_on_itself


RUN = ("synthesize", "photos", "--epsilon", "1", "--samples", "20", "-o", "out", "--json")
MERF = ("--method", "dp-merf")


@pytest.fixture
def place(workplace: Workplace) -> Workplace:
    drawing.class_folder(workplace / "photos")
    return workplace


def recommending(name: str, tuned_on: str = "nothing") -> Any:
    found = Ranking((name,), "a test", tuned_on)
    return mock.patch.object(candidates, "ranking", return_value=found)


class TestAWholeRun:
    def test_its_numbers_reach_config_plan_and_claim(
        self, place: Workplace, tried: list[Tried]
    ) -> None:
        said = place.run(*RUN, *MERF, "--time", "10s").succeeded()
        assert said.err.splitlines()[-1] == "settings by rule for 10 s here: about 9 s."
        assert len(tried) == 1
        kept = read_config(place / "runs/out")
        assert (kept.time, kept.fitted_on) == (10.0, "a rule of the tests")
        assert "steps=9" in kept.fitted
        claim = said.json()["claim"]
        assert claim["method"]["config"]["steps"] == 9
        assert claim["method"]["config"]["features"] == 40
        (tuning,) = [words for words in claim["statement"] if "selected" in words]
        assert "the settings by rule that ship with the method" in tuning
        assert "a rule of the tests" in tuning

    def test_it_goes_on_as_it_began_and_tries_nothing(
        self, place: Workplace, tried: list[Tried], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = place.run(*RUN, *MERF, "--time", "10s").succeeded().json()
        assert len(tried) == 1
        refuse_deciding(monkeypatch)
        (place / "runs/out/release.json").unlink()
        again = place.run(*RUN, *MERF, "--time", "10s", "--resume").json()
        assert again["claim"] == first["claim"]
        assert len(place.book("enter")) == 1
        place.run("evaluate", "--run", "runs/out", "--protocol", place.quick_protocol()).succeeded()

    @pytest.mark.usefixtures("tried")
    def test_another_time_is_another_run(self, place: Workplace) -> None:
        place.run(*RUN, *MERF, "--time", "10s").succeeded()
        for more in ((), ("--dry-run",)):
            said = place.run(*RUN, *MERF, "--time", "20s", "--resume", *more)
            said.refused("--resume", "--time")

    def test_a_recommended_method_stays_too(self, place: Workplace) -> None:
        words = (*RUN, "--device-kind", "cpu")
        with recommending("dp-merf"):
            first = place.run(*words).succeeded().json()
        assert first["claim"]["method"]["name"] == "dp-merf"
        with recommending("dpdm"):
            again = place.run(*words, "--resume").succeeded().json()
            seen = place.run(*words, "--resume", "--dry-run").succeeded().json()
        assert again["digest"] == first["digest"]
        assert seen["method"] == "dp-merf"
        assert seen["settings"] == first["claim"]["method"]["config"]

    def test_a_look_ahead_decides_the_same_and_leaves_no_trace(
        self, place: Workplace, tried: list[Tried]
    ) -> None:
        before = place.tree()
        seen = place.run(*RUN, *MERF, "--time", "10s", "--dry-run").succeeded()
        assert len(tried) == 1, "what it takes is known by then"
        assert seen.json()["preset"] == BY_RULE
        assert seen.json()["settings"]["steps"] == 9
        assert seen.json()["expected"]["seconds"] == 9.0
        assert seen.json()["expected"]["where"] == "here, by a trial"
        assert place.tree() == before
        assert place.book("enter") == []

    def test_a_warning_comes_first_and_a_refusal_alone(
        self, place: Workplace, tried: list[Tried]
    ) -> None:
        words = (*RUN, *MERF, "--time", "10s", "--delta", "0.03")
        place.run(*words, "--title", "see /ho" + "me/alice").refused("path")
        said = place.run(*words).succeeded().err.splitlines()
        assert len(tried) == 2
        assert said[0].startswith("warning: delta 0.03 is above 1/40;")
        assert said[-1].startswith("settings by rule for 10 s here")

    def test_a_smoke_run_is_settled_for_the_units_that_it_has(
        self, place: Workplace, tried: list[Tried]
    ) -> None:
        given = replace(config(source=str(place / "photos")), limit=10)
        found = prepare.prepare(given, place.home, Silent())
        assert tried[0].facts == found.facts
        assert found.facts.count == 10

    @pytest.mark.usefixtures("tried")
    def test_what_a_run_decides_nobody_can_declare(self, place: Workplace) -> None:
        """Else any settings could be said to be by a rule that was tuned on nothing private."""
        forged = [{"fitted": ("steps=3",)}, {"fitted_on": "no data"}, {"ranked_on": "no data"}]
        for one in forged:
            given = config(source=str(place / "photos"), **one)
            for begin in (understudy.preview, understudy.synthesize):
                with pytest.raises(UserError, match="is what a run writes; leave it out"):
                    begin(given, place / "forged", home=place.home)
        assert not (place / "runs").exists()
        assert not place.home.exists()

    def test_a_run_begun_from_python_is_resumed_from_the_command_line(
        self, place: Workplace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(place.folder)
        changes = ("steps=3", "features=40")
        given = RunConfig("photos", "dp-merf", 1.0, samples=20, preset="default", changes=changes)
        understudy.synthesize(given, "out", home=place.home)
        sets = [word for change in changes for word in ("--set", change)]
        place.run(*RUN, *MERF, "--preset", "default", *sets, "--resume").succeeded()

    def test_a_look_at_a_run_that_has_begun_adds_it_once_and_tries_nothing(
        self, place: Workplace, tried: list[Tried], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place.run(*RUN, *MERF, "--time", "10s").succeeded()
        refuse_deciding(monkeypatch)
        seen = place.run(*RUN, *MERF, "--time", "10s", "--resume", "--dry-run").succeeded().json()
        assert seen["composed"]["runs"] == 1
        assert seen["composed"]["together"] == pytest.approx(seen["epsilon"], abs=1e-6)
        assert len(tried) == 1

    def test_settings_for_another_machine_are_said_to_take_hours_here(
        self, place: Workplace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(expected, "rates_here", lambda _: ByRates(machine(CPU), slower=1e6))
        words = (*RUN, *MERF, "--device-kind", "h200", "--dry-run")
        said = place.run(*words).succeeded()
        assert said.json()["expected"]["where"] == "on an H200, by known rates"
        (warning,) = [line for line in said.err.splitlines() if "hours here" in line]
        assert "they are for an H200: begin it there, or leave --device-kind out" in warning

    @pytest.mark.parametrize(
        ("compared_on", "covered"), [("digits and others", False), ("mnist", True)]
    )
    def test_a_method_that_was_recommended_by_these_very_data_is_not_covered(
        self, workplace: Workplace, compared_on: str, covered: bool
    ) -> None:
        words = ("synthesize", "digits", "--epsilon", "1", "--samples", "20", "-o", "out")
        quick = ("--device-kind", "cpu", "--time", "1s", "--json")
        with recommending("dp-merf", compared_on):
            claim = workplace.run(*words, *quick).succeeded().json()["claim"]
        assert claim["tuning"]["covered"] == covered
        assert f"methods compared on: {compared_on}" in claim["tuning"]["by"]
        assert read_config(workplace / "runs/out").ranked_on == compared_on


class TestOthers:
    """What others begin takes presets as they are, so that it can be repeated anywhere."""

    def test_a_suites_cell_tries_nothing(self, workplace: Workplace) -> None:
        for one in (cell(workplace), cell(workplace, method="dp-gan")):
            assert one.run_config().time is None
            assert one.run_config().is_settled

    def test_a_packed_job_is_what_its_cell_says(
        self, workplace: Workplace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refuse_deciding(monkeypatch)
        place, home = Workspace(workplace / "bench"), workplace.home
        (moved,) = pack([cell(workplace)], place, workplace / "job", home, Silent())
        assert moved.done

    def test_an_audit_does_not_either(
        self, place: Workplace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = mock.Mock(side_effect=UserError("far enough."))
        monkeypatch.setattr(audit, "prepare", asked)
        with pytest.raises(UserError, match="far enough"):
            audit.audit_method(config(source=str(place / "photos")), home=place.home)
        assert asked.call_args.args[0].is_settled

    def test_a_demo_does_not_either(self, workplace: Workplace) -> None:
        asked = mock.Mock(side_effect=UserError("far enough."))
        with mock.patch("understudy.run.demo.synthesize", asked):
            assert "far enough" in workplace.run("demo", "-o", "demo").err
        assert asked.call_args.args[0].is_settled
