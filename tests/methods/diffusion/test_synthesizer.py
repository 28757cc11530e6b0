"""Drawing records: seeded, labelled as asked, the same after saving, with a bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.methods.bench import SCHEMA
from tests.methods.diffusion.small import SMALL
from understudy.errors import UserError
from understudy.methods.contract import Movable, Sampler
from understudy.methods.diffusion.denoising import Preconditioning
from understudy.methods.diffusion.samplers import SamplerSettings
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer
from understudy.nets.seeding import built


def synthesizer(drawing: SamplerSettings = SMALL.drawing) -> DiffusionSynthesizer:
    spec = SMALL.network((1, 8, 8), 3)
    network = built(spec.build, 0, "a test")
    torch.nn.init.normal_(network.leave.weight, std=0.3)  # type: ignore[union-attr,arg-type]
    return DiffusionSynthesizer(spec, network, Preconditioning(), drawing, SCHEMA)


def test_it_is_what_a_run_needs() -> None:
    assert isinstance(synthesizer(), Sampler)
    assert isinstance(synthesizer(), Movable)


def test_the_same_seed_gives_the_same_records_and_another_others() -> None:
    made = synthesizer()
    one, same, other = made.sample(9, seed=1), made.sample(9, seed=1), made.sample(9, seed=2)
    assert (one.features == same.features).all()
    assert (one.features != other.features).any()
    assert one.features.dtype == np.uint8
    assert sorted(one.labels) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_labels_are_the_callers() -> None:
    made = synthesizer().sample(4, {"label": [2, 2, 0, 1]})
    assert made.labels.tolist() == [2, 2, 0, 1]
    with pytest.raises(UserError, match="codes from 0 to 2"):
        synthesizer().sample(1, {"label": [3]})
    assert len(synthesizer().sample(0)) == 0


def test_the_class_changes_what_is_drawn() -> None:
    made = synthesizer()
    ones, twos = (made.sample(3, {"label": [c] * 3}, seed=0).features for c in (1, 2))
    assert (ones != twos).any()


def test_it_survives_on_disk(tmp_path: Path) -> None:
    drawing = SamplerSettings("edm", 4, guidance=0.5, churn=3.0)
    before = synthesizer(drawing)
    before.save(tmp_path)
    after = DiffusionSynthesizer.load(tmp_path)
    assert after.drawing == drawing
    assert (before.sample(5, seed=3).features == after.sample(5, seed=3).features).all()


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no synthesizer"):
        DiffusionSynthesizer.load(tmp_path)
    (tmp_path / "synthesizer.json").write_text('{"format": "understudy-generator/1"}')
    with pytest.raises(UserError, match="understudy-diffusion/1"):
        DiffusionSynthesizer.load(tmp_path)


def test_another_way_of_drawing_keeps_the_denoiser() -> None:
    made = synthesizer()
    finer = made.with_drawing(SamplerSettings(steps=6))
    assert finer.drawing.steps == 6
    assert (made.sample(3).features != finer.sample(3).features).any()


class Counting:
    """Progress that counts."""

    def __init__(self) -> None:
        self.total, self.done = 0, 0

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Counting]:
        del description
        self.total = total or 0
        yield self

    def advance(self, steps: int = 1) -> None:
        self.done += steps

    def note(self, text: str) -> None:
        del text

    def say(self, line: str) -> None:
        del line


def test_drawing_shows_how_far_it_is() -> None:
    shown, made = Counting(), synthesizer()
    made.work_on(torch.device("cpu"), shown)
    made.sample(501)
    assert shown.done == shown.total == 2 * made.drawing.steps
