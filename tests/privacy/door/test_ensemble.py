"""Sealed models on shards: who is in which, and how far one unit can move an answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import (
    Silence,
    enter,
    fits_noise,
    handle,
    kinds,
    leave,
    open_door,
    records,
    vectors,
)
from understudy.errors import PrivacyError, RunFailed, UserError
from understudy.privacy.door.batch import TRIAL_ROWS, Batch
from understudy.privacy.door.ensemble import Ensemble, make_shards
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import spent_events, spent_uses
from understudy.privacy.plan.mechanisms import EnsembleGradients, EnsembleVotes

KEY = b"a secret of this dataset"
VOTES = EnsembleVotes("votes", shards=4, queries=20, sigma=3.0)
GRADIENTS = EnsembleGradients("gradients", shards=4, queries=5, clip=0.5, sigma=3.0)

TRIED = (1, TRIAL_ROWS, 1)
"""Shards of so many made-up records are tried first."""


class Constant(nn.Module):
    """A model that learned one thing: the mean of its shard."""

    def __init__(self, batch: Batch, classes: int = 3) -> None:
        super().__init__()
        self.mean = nn.Parameter(batch.features.flatten(1).mean(dim=0))
        self.classes = classes

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        vote = int(self.mean.detach().sum().abs() * 1e4) % self.classes
        answers = torch.zeros(len(inputs), self.classes)
        answers[:, vote] = 1.0
        return answers


def push(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """A loss with a gradient of any size, in the direction that the model learned."""
    assert isinstance(model, Constant)
    return 1e9 * (inputs * model.mean).sum()


def failing_loss(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    del model, inputs
    raise ValueError("no such loss")


# Shards


@pytest.mark.parametrize("units", [None, [f"p{i % 9}" for i in range(60)]])
def test_one_more_unit_changes_one_shard_and_moves_nobody(units: list[str] | None) -> None:
    data = records(60, units=units)
    whole = make_shards(data, data, 5, KEY)
    gone = 0 if units is None else [i for i, name in enumerate(units) if name == "p0"]
    less = data.select(np.delete(np.arange(60), gone))
    rest = make_shards(less, less, 5, KEY)
    same = [
        a.features.shape == b.features.shape and bool((a.features == b.features).all())
        for a, b in zip(whole, rest, strict=True)
    ]
    assert same.count(False) == 1
    assert sum(len(s) for s in whole) == 60


def test_shards_are_disjoint_whole_and_keep_units_together() -> None:
    units = [f"p{i % 9}" for i in range(60)]
    shards = make_shards(records(60, units=units), records(60, units=units), 5, KEY)
    people = [set(s.units.tolist()) for s in shards if s.units is not None]
    assert sum(len(p) for p in people) == 9
    assert set.union(*people) == set(units)


def test_shards_do_not_depend_on_order_and_need_a_key() -> None:
    data = records(60)
    turned = data.select(np.arange(60)[::-1])
    one, two = make_shards(data, data, 5, KEY), make_shards(turned, turned, 5, KEY)
    assert [len(s) for s in one] == [len(s) for s in two]
    other = make_shards(data, data, 5, b"another secret of it")
    assert [len(s) for s in one] != [len(s) for s in other]
    with pytest.raises(PrivacyError, match="split key"):
        make_shards(data, data, 5, b"")


def test_mapped_records_stay_in_the_shards_of_their_originals(tmp_path: Path) -> None:
    """A map rounds a record otherwise in other company; that must not move it."""
    seen: list[list[int]] = [[], []]

    def learn(batch: Batch, into: list[int]) -> nn.Module:
        into.append(len(batch))
        return Constant(batch)

    private = handle(tmp_path, records(60), VOTES)
    private.ensemble(4, lambda b: learn(b, seen[0]))
    jittered = private.map(lambda f: f.flatten(1) * 0.5)
    jittered.ensemble(4, lambda b: learn(b, seen[1]))
    assert seen[0] == seen[1]


# How far one unit moves an answer


def _answers(
    folder: Path, models: list[nn.Module], ask: Callable[[Ensemble], torch.Tensor]
) -> torch.Tensor:
    """What an ensemble of exactly these models says, without noise."""
    private = handle(folder, records(40), VOTES, GRADIENTS, noise=Silence())
    made = iter([Constant(Batch(torch.zeros(1, 1), {})) for _ in TRIED] + models)
    ensemble = private.ensemble(4, lambda _: next(made))
    return ask(ensemble)


def _model(mean: list[float]) -> nn.Module:
    return Constant(Batch(torch.tensor([mean]), {}))


def test_the_worst_neighbour_moves_a_vote_by_the_square_root_of_two(tmp_path: Path) -> None:
    """One shard's model votes otherwise: one count falls, another rises, never more."""
    models = [_model([0.0001 * i]) for i in (0, 1, 2)]
    inputs = torch.zeros(3, 1)
    moves = set()
    for number, vote in enumerate((0, 1, 2)):
        voters = [*models, _model([0.0001 * vote])]
        one = _answers(tmp_path / f"a{number}", voters, lambda e: e.noisy_votes(inputs))
        for other in range(3):
            voters = [*models, _model([0.0001 * other])]
            folder = tmp_path / f"b{number}{other}"
            two = _answers(folder, voters, lambda e: e.noisy_votes(inputs))
            moves.update((one - two).norm(dim=1).tolist())
            assert one.sum(dim=1).tolist() == [4.0] * 3
    assert max(moves) == pytest.approx(math.sqrt(2))


def test_the_worst_neighbour_moves_a_gradient_by_twice_the_clip(tmp_path: Path) -> None:
    inputs = torch.zeros(2, 3)
    ahead = [_model([1.0, 0.0, 0.0]) for _ in range(4)]
    turned = [*[_model([1.0, 0.0, 0.0]) for _ in range(3)], _model([-1.0, 0.0, 0.0])]
    one = _answers(tmp_path / "one", ahead, lambda e: e.noisy_gradients(inputs, push))
    two = _answers(tmp_path / "two", turned, lambda e: e.noisy_gradients(inputs, push))
    assert float((one - two).norm()) == pytest.approx(2 * 0.5, rel=1e-6)


def test_a_gradient_that_is_not_finite_adds_nothing(tmp_path: Path) -> None:
    inputs = torch.zeros(2, 3)
    models = [_model([1.0, 0.0, 0.0]) for _ in range(3)] + [_model([float("nan")] * 3)]
    out = _answers(tmp_path, models, lambda e: e.noisy_gradients(inputs, push))
    assert float(out.norm()) == pytest.approx(3 * 0.5)


def test_noise_is_that_of_the_sensitivity(tmp_path: Path) -> None:
    wide = torch.zeros(3000, 3)
    votes = EnsembleVotes("votes", shards=4, queries=3000, sigma=3.0)
    private = handle(tmp_path, records(40), votes, GRADIENTS)
    ensemble = private.ensemble(4, Constant)
    counts = ensemble.noisy_votes(wide).double()
    clean = ensemble._votes(wide, 3)
    noise = (counts - clean).flatten().numpy()
    assert fits_noise(noise, 3.0 * math.sqrt(2))
    assert not fits_noise(noise, 3.0)
    still = torch.zeros(9000)
    sums = ensemble.noisy_gradients(still, lambda m, x: (0.0 * x).sum() + 0.0 * m.mean.sum())
    assert fits_noise(sums.double().numpy(), 3.0 * 2 * 0.5)
    assert not fits_noise(sums.double().numpy(), 3.0 * 0.5)


def test_every_input_is_a_query_and_every_gradient_a_call(tmp_path: Path) -> None:
    private = handle(tmp_path, records(40), VOTES, GRADIENTS)
    ensemble = private.ensemble(4, Constant)
    ensemble.noisy_votes(torch.zeros(7, 16))
    ensemble.noisy_votes(torch.zeros(13, 16))
    ensemble.noisy_gradients(torch.zeros(3, 16), push)
    path = tmp_path / "ledger.jsonl"
    assert spent_uses(read_ledger(path)) == {"votes": 20, "gradients": 1}
    assert [(e.sigma, e.count) for e in spent_events(read_ledger(path))] == [  # type: ignore
        (3.0, 20),
        (3.0, 1),
    ]
    with pytest.raises(PrivacyError, match="unspent"):
        ensemble.noisy_votes(torch.zeros(1, 16))
    with pytest.raises(PrivacyError, match="beyond the plan"):
        handle(tmp_path / "new", records(40), VOTES).ensemble(4, Constant).noisy_votes(
            torch.zeros(21, 16)
        )


def test_answers_are_given_back_after_a_restart(tmp_path: Path) -> None:
    private = handle(tmp_path, records(40), VOTES)
    first = private.ensemble(4, Constant).noisy_votes(torch.zeros(5, 16))
    leave(private._door)
    again = enter(open_door(tmp_path), records(40))
    ensemble = again.ensemble(4, Constant)
    assert torch.equal(ensemble.noisy_votes(torch.zeros(5, 16)), first)
    assert not torch.equal(ensemble.noisy_votes(torch.zeros(5, 16)), first)
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"votes": 10}


# Mistakes


def test_the_plan_counts_shards(tmp_path: Path) -> None:
    private = handle(tmp_path, records(40), VOTES)
    with pytest.raises(PrivacyError, match=r"no unspent ensemble-votes\(shards=5\)"):
        private.ensemble(5, Constant).noisy_votes(torch.zeros(1, 16))


def test_no_records_still_give_noise(tmp_path: Path) -> None:
    """Empty shards train no model; that none answered must not show."""
    private = handle(tmp_path, records(0), VOTES, GRADIENTS, count=40)
    ensemble = private.ensemble(4, Constant)
    assert ensemble.noisy_votes(torch.zeros(5, 16)).shape == (5, 3)
    assert ensemble.noisy_gradients(torch.zeros(2, 16), push).shape == (2, 16)
    two = private.ensemble(4, lambda batch: Constant(batch, 2))
    assert two.noisy_votes(torch.zeros(5, 16), classes=2).shape == (5, 2)


@pytest.mark.parametrize("count", [0, 40], ids=["no records", "records"])
def test_whether_there_are_records_decides_no_refusal(tmp_path: Path, count: int) -> None:
    """What no model could answer is refused before it is charged, whoever is there."""
    private = handle(tmp_path, records(count), VOTES, GRADIENTS, count=40)
    ensemble = private.ensemble(4, Constant)
    with pytest.raises(PrivacyError, match="every model must answer"):
        ensemble.noisy_votes(torch.zeros(5, 16), classes=2)
    with pytest.raises(ValueError, match="no such loss"):
        ensemble.noisy_gradients(torch.zeros(2, 16), failing_loss)
    one = Constant(Batch(torch.zeros(1, 16), {}))
    with pytest.raises(PrivacyError, match="sharing nothing"):
        private.ensemble(4, lambda _: one)
    assert kinds(tmp_path) == ["plan"]


def test_models_that_answer_in_another_width_are_refused(tmp_path: Path) -> None:
    """A head as wide as the classes of its shard: width one would vote for everything."""
    private = handle(tmp_path, records(40), VOTES)
    sizes = iter((*[3 for _ in TRIED], 3, 3, 1, 3))
    ensemble = private.ensemble(4, lambda b: Constant(b, next(sizes)))
    with pytest.raises(RunFailed, match="every model must answer"):
        ensemble.noisy_votes(torch.zeros(2, 16))
    assert "commit" not in kinds(tmp_path)


def test_answers_of_another_part_are_not_planned(tmp_path: Path) -> None:
    elsewhere = EnsembleVotes("votes", shards=4, queries=20, sigma=3.0, part="other")
    ensemble = handle(tmp_path, records(40), elsewhere).ensemble(4, Constant)
    with pytest.raises(PrivacyError, match="no unspent ensemble-votes"):
        ensemble.noisy_votes(torch.zeros(2, 16))


def test_models_that_share_weights_are_refused(tmp_path: Path) -> None:
    """The same model trained on shard after shard: one unit could change every vote."""
    one: list[Constant] = []

    def go_on(batch: Batch) -> nn.Module:
        if len(batch) in TRIED:
            return Constant(batch)
        one.append(one[0] if one else Constant(batch))
        return one[0]

    private = handle(tmp_path, records(40), VOTES)
    with pytest.raises(RunFailed, match="sharing nothing"):
        private.ensemble(4, go_on)


def test_training_leaves_generators_alone_and_its_failure_shuts_the_door(tmp_path: Path) -> None:
    def drawing(batch: Batch) -> nn.Module:
        torch.rand(len(batch))
        return Constant(batch)

    private = handle(tmp_path, records(40), VOTES)
    torch.manual_seed(1)
    private.ensemble(4, drawing)
    after = torch.rand(1).item()
    torch.manual_seed(1)
    assert after == torch.rand(1).item()

    def failing(batch: Batch) -> nn.Module:
        if len(batch) not in TRIED:
            raise ValueError(f"a shard of {len(batch)}")
        return Constant(batch)

    with pytest.raises(RunFailed, match="a shard of"):
        private.ensemble(4, failing)
    with pytest.raises(PrivacyError, match="start a new run"):
        private.ensemble(4, Constant)
    assert kinds(tmp_path)[-1] == "fail"


@pytest.mark.parametrize("least", [2, 7])
def test_a_train_that_needs_more_records_is_refused_beforehand(tmp_path: Path, least: int) -> None:
    """Whether every shard has so many depends on records."""

    def needs_some(batch: Batch) -> nn.Module:
        if len(batch) < least:
            raise ValueError("too few")
        return Constant(batch)

    private = handle(tmp_path, records(40), VOTES)
    with pytest.raises(UserError, match="train fails on a shard of 1 extreme"):
        private.ensemble(4, needs_some)
    private.ensemble(4, Constant)
    assert kinds(tmp_path) == ["plan"]


def test_shards_of_plain_vectors_work_too(tmp_path: Path) -> None:
    data = vectors(np.random.default_rng(0).normal(size=(40, 3)))
    out = handle(tmp_path, data, VOTES).ensemble(4, Constant).noisy_votes(torch.zeros(2, 3))
    assert out.shape == (2, 3)
