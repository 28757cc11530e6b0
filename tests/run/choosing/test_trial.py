"""A trial meets declared facts alone, times what it says it times, and leaves nothing behind."""

from __future__ import annotations

import inspect
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from tests.methods.bench import SCHEMA, facts_of, stripes
from tests.methods.diffusion.small import FETA, PDP, SMALL
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.methods.contract import Context, Facts, Loop, LoopKind, PublicInputs
from understudy.methods.diffusion.dp_feta import DPFeta
from understudy.methods.dp_gan import GanConfig
from understudy.methods.dp_merf import DPMerf, MerfConfig
from understudy.methods.pace import Pace
from understudy.methods.registry import get_method, method_names
from understudy.privacy.door import private_records
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.plan.plan import Plan
from understudy.progress import Silent
from understudy.run.choosing import trial as module
from understudy.run.choosing.trial import Tried, quick_trial, random_records, trial

CPU = torch.device("cpu")
MERF = MerfConfig(features=40, steps=3, batch=20, latent=4, width=16, features_per_step=20)
GAN = GanConfig(
    steps=3, batch=8, width=8, latent=4, discriminator_width=4, discriminator_features=8
)
FACTS = facts_of(stripes(40))
TINY: Mapping[str, Any] = {
    "dp-feta": FETA,
    "dp-gan": GAN,
    "dp-merf": MERF,
    "dpdm": SMALL,
    "pdp-diffusion": PDP,
}


def tried(name: str = "dp-merf", **changes: Any) -> Tried:
    method: Any = get_method(name)
    config = replace(TINY[name], **{"steps": 3, **changes})
    noise = "exact" if name == "dp-merf" else "float"
    return Tried(method, config, FACTS, noise, CPU, samples=20)


def test_every_method_is_tried_here() -> None:
    assert set(TINY) == set(method_names())


@pytest.mark.parametrize("name", TINY)
def test_every_loop_is_timed_by_its_bar(name: str) -> None:
    """A loop whose bar is called otherwise than it says would come to no time."""
    asked = tried(name)
    pace = trial(asked)
    assert set(pace.rounds) == {loop.bar for loop in asked.loops}
    assert all(seconds > 0 for seconds in pace.rounds.values())
    assert 0 < pace.seconds(asked.loops) < 60


class Asked(Silent):
    """Notes what is shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def task(self, description: str, total: int | None = None) -> Any:
        self.shown.append(description)
        return super().task(description, total)


@dataclass(frozen=True)
class Nights:
    steps: int
    naps: int = 1


class Sleeper(DPMerf):
    """Takes a while to begin, and one for each round; nothing else does."""

    start, step, nap = 0.2, 0.4, 0.01

    def __init__(self) -> None:
        self.fitted: list[Nights] = []

    def loops(self, config: Nights, facts: Facts, samples: int) -> Sequence[Loop]:
        del facts, samples
        return (
            Loop("napping", "naps", config.naps, LoopKind.PLAIN, 1, 1),
            Loop("sleeping", "steps", config.steps, LoopKind.PLAIN, 1, 1),
        )

    def fit(
        self,
        config: Any,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Any:
        del parts, plan, public
        self.fitted.append(config)
        time.sleep(self.start)
        for loop, each in zip(self.loops(config, FACTS, 1), (self.nap, self.step), strict=True):
            with context.progress.task(loop.bar, loop.rounds) as bar:
                for _ in range(loop.rounds):
                    time.sleep(each)
                    bar.advance()


def slept(nights: Nights) -> tuple[Sleeper, Tried]:
    method: Any = Sleeper()
    return method, Tried(method, nights, FACTS, "exact", CPU, samples=20)


def test_start_and_rounds_are_told_apart() -> None:
    method, asked = slept(Nights(steps=5000, naps=700))
    shown = Asked()
    pace = trial(asked, shown)
    assert method.step <= pace.rounds["sleeping"] < 1.5 * method.step
    assert method.nap <= pace.rounds["napping"] < 3 * method.nap
    assert 0.5 * method.start < pace.start < 2 * method.start
    assert pace.seconds(asked.loops) > 5000 * method.step
    assert shown.shown == ["trying settings on random records"]
    assert method.fitted == [Nights(steps=3, naps=3), Nights(steps=3, naps=30)], (
        "only loops that were too short to judge by are tried longer"
    )


def test_no_loop_is_run_longer_than_it_is_asked_to_be() -> None:
    method, asked = slept(Nights(steps=1, naps=2))
    assert trial(asked).seconds(asked.loops) < 2
    assert method.fitted == [Nights(steps=1, naps=2)]


def test_what_goes_in_is_declared() -> None:
    """No field of it could hold a record, and the records are made from the form alone."""
    names = {field.name for field in fields(Tried)}
    assert names == {"method", "config", "facts", "noise", "device", "samples", "weights"}
    assert {field.name for field in fields(Facts)} == {"count", "counts", "shape", "schema"}
    assert list(inspect.signature(random_records).parameters) == ["count", "shape", "schema"]


def test_random_records_have_the_form_and_say_nothing_else() -> None:
    schema = Schema((Attribute("label", ("a", "b")), Attribute("eyes", ("x", "y", "z"))), "label")
    made = random_records(600, (3, 8, 8), schema)
    assert made.features.shape == (600, 3, 8, 8)
    assert made.schema == schema
    assert made.units is None
    assert {name: set(np.unique(codes)) for name, codes in made.attributes.items()} == {
        "label": {0, 1},
        "eyes": {0, 1, 2},
    }
    assert (random_records(600, (3, 8, 8), schema).features == made.features).all()


def test_the_method_meets_random_records_of_the_declared_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met: list[np.ndarray[Any, Any]] = []
    original = random_records

    def noted(count: int, shape: tuple[int, ...], schema: Schema) -> Any:
        made = original(count, shape, schema)
        met.append(np.asarray(made.features))
        return made

    monkeypatch.setattr(module, "random_records", noted)
    trial(tried("pdp-diffusion"))
    assert [len(features) for features in met] == [40, 2000], "private, then public ones"


def test_of_many_units_some_are_tried_unless_a_step_draws_more() -> None:
    asked = tried("dp-gan")
    many = replace(asked, facts=Facts(10**6, {"train": 10**6}, (1, 8, 8), SCHEMA))
    facts, _ = module._at_hand(many, many.config)
    assert (facts.count, facts.counts) == (20_000, {"train": 20_000})
    facts, mechanisms = module._at_hand(many, replace(GAN, batch=50_000))
    assert (facts.count, facts.counts) == (80_000, {"train": 80_000}), "no more than it needs"
    assert mechanisms
    with pytest.raises(UserError):
        module._at_hand(many, replace(GAN, batch=10**7))


def test_a_pass_over_all_units_counts_for_those_that_were_not_tried() -> None:
    method, asked = slept(Nights(steps=1, naps=1))
    many = replace(asked, facts=Facts(60_000, {"train": 60_000}, (1, 8, 8), SCHEMA))
    pace = trial(many)
    assert pace is not None
    assert pace.tried
    assert 3 * method.start <= pace.start < 6 * method.start
    assert pace.rounds["sleeping"] < 1.5 * method.step, "a round draws as many as ever"


GUESS = Pace(1.0, {"napping": 0.01, "sleeping": 0.4})


def test_settings_whose_trial_would_itself_take_long_are_not_tried() -> None:
    method, asked = slept(Nights(steps=5000))
    each = module.LONGEST / 3
    assert quick_trial(asked, replace(GUESS, rounds={**GUESS.rounds, "sleeping": each})) is None
    assert method.fitted == []
    assert quick_trial(asked, GUESS) is not None
    assert method.fitted


@dataclass(frozen=True)
class EvenNights(Nights):
    def __post_init__(self) -> None:
        if self.steps % 2:
            raise UserError("an even number of nights, please.")


def test_settings_that_allow_no_short_fit_are_not_tried() -> None:
    method, asked = slept(EvenNights(steps=10))
    assert quick_trial(asked, GUESS) is None
    assert method.fitted == []


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither here, nor where temporary folders lie, nor in the owner's home, nor a lock."""
    desk, temporary = tmp_path / "desk", tmp_path / "temporary"
    desk.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(desk)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = open_files()
    trial(tried())
    assert list(desk.iterdir()) == list(temporary.iterdir()) == []
    assert not (tmp_path / "home").exists()
    assert open_files() == before


def test_numbers_that_others_draw_stay_the_same() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    trial(tried("dpdm"))
    assert torch.equal(torch.rand(4), expected)


def test_a_failure_is_said_to_be_one_of_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that a plan stays charged: there is none."""
    broken = mock.Mock(side_effect=ValueError("no such feature"))
    monkeypatch.setattr(private_records, "make_batch", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(UserError, match=r"random records, so nothing was begun \(no such feature"):
        trial(tried())
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_trial_leaves_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(DPFeta, "fit", stopped)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        trial(tried("dp-feta"))
    assert list(tmp_path.iterdir()) == []
