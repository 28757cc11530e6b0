"""Both backends give the clipped sum of a plain one-record loop, for all that methods use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import classify, frozen, mlp, records
from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.nets.per_example import choice as choice_module
from understudy.nets.per_example import functions as record_functions
from understudy.nets.per_example.compiled import CompiledBackend
from understudy.nets.per_example.expanded import ExpandedBackend
from understudy.nets.per_example.functions import called
from understudy.nets.per_example.twins import trainable
from understudy.nets.per_example.vmap import VmapBackend
from understudy.privacy.door.batch import TRIAL_ROWS, Batch, Draws, make_batch
from understudy.privacy.dpsgd import engine as engine_module
from understudy.privacy.dpsgd import trials as trials_module
from understudy.privacy.dpsgd.engine import GradientEngine
from understudy.privacy.dpsgd.loss import BoundLoss, Loss, Models, Values
from understudy.privacy.dpsgd.models import BoundModels
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.gradient_pieces import PieceSums
from understudy.privacy.sums.units import UnitIndex

CPU = torch.device("cpu")
BACKENDS = ("expanded", "vmap")


class Conditional(nn.Module):
    """A small critic: convolutions, GroupNorm, an embedding of the class, a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.GroupNorm(2, 4),
            nn.LeakyReLU(0.2),
            nn.Conv2d(4, 6, 3, stride=2, padding=1),
            nn.GroupNorm(3, 6),
            nn.SiLU(),
        )
        self.head = nn.Linear(6 * 4, 1)
        self.project = nn.Linear(5, 6 * 4, bias=False)
        self.embed = nn.Embedding(3, 5)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        features = self.body(images).flatten(1)
        class_part = (features * self.project(self.embed(labels))).sum(dim=1)
        return self.head(features).squeeze(1) + class_part


@frozen
def critic_loss(models: Models, batch: Batch) -> torch.Tensor:
    return nn.functional.softplus(-models[0](batch.features, batch.labels))


@frozen
def noisy_loss(models: Models, batch: Batch) -> torch.Tensor:
    noised = batch.features + batch.draws["level"].abs() * batch.draws["noise"]
    return ((models[0](noised) - 1.0) ** 2).sum(dim=1) * batch.draws["uniform weight"]


@frozen
def paired_loss(models: Models, batch: Batch) -> torch.Tensor:
    noised = batch.features + batch.draws["level_paired"] * batch.draws["noise_mirrored"]
    return ((models[0](noised) - 1.0) ** 2).sum(dim=1)


@frozen
def joint_loss(models: Models, batch: Batch) -> torch.Tensor:
    encode, decode = models
    return ((decode(encode(batch.features)) - batch.features.flatten(1)) ** 2).sum(dim=1)


@frozen
def twice_loss(models: Models, batch: Batch) -> torch.Tensor:
    """Calls its model twice, as a gradient penalty or a consistency loss would."""
    near, far = models[0](batch.features), models[0](1.0 - batch.features)
    return ((near - far) ** 2).sum(dim=1) + near.exp().sum(dim=1)


@dataclass
class Case:
    models: Callable[[], list[nn.Module]]
    loss: Loss
    draws: Draws = field(default_factory=dict)
    multiplicity: int = 1
    units: Sequence[str] | None = None
    soft: bool = False


def _critic() -> list[nn.Module]:
    torch.manual_seed(3)
    return [Conditional()]


def _pair() -> list[nn.Module]:
    return [mlp(1, 16, 2), nn.Sequential(mlp(2, 2, 16))]


NOISE: Draws = {"noise": (1, 4, 4), "level": (1, 1, 1), "uniform weight": ()}
PAIRS: Draws = {"noise_mirrored": (1, 4, 4), "level_paired": (1, 1, 1)}
PEOPLE = ["ann"] * 5 + ["bob"] + ["cy"] * 4 + ["di"] * 2 + ["ed"] * 1
CASES = {
    "mlp": Case(lambda: [mlp()], classify),
    "soft labels": Case(lambda: [mlp()], classify, soft=True),
    "critic": Case(_critic, critic_loss),
    "two models": Case(_pair, joint_loss),
    "called twice": Case(lambda: [mlp()], twice_loss),
    "multiplicity": Case(lambda: [mlp()], noisy_loss, NOISE, multiplicity=3),
    "noises in pairs": Case(lambda: [mlp()], paired_loss, PAIRS, multiplicity=4),
    "units": Case(_critic, critic_loss, units=PEOPLE),
    "units, two models": Case(_pair, joint_loss, units=PEOPLE),
}


def engine_of(
    case: Case, backend: str, data: Records, clip: float = 0.5, precision: str = "float32"
) -> GradientEngine:
    mechanism = DPSGD("sgd", 10, rate=0.5, clip=clip, sigma=1.0, multiplicity=case.multiplicity)
    speed = Speed(backend=backend, micro_batch=4 * case.multiplicity, precision=precision)
    return made_engine(case, mechanism, speed, data)


def made_engine(case: Case, mechanism: DPSGD, speed: Speed, data: Records) -> GradientEngine:
    return GradientEngine(
        BoundModels(case.models()),
        BoundLoss(case.loss),
        case.draws,
        mechanism,
        speed,
        data,
        NoiseSource(),
        expected=6.0,
    )


def batches_of(engine: GradientEngine) -> list[Batch]:
    """The batches that an engine computes gradients on, as it makes them."""
    seen: list[Batch] = []
    draw = engine._subject.draw

    def drawn(batch: Batch, times: int) -> Batch:
        seen.append(draw(batch, times))
        return seen[-1]

    object.__setattr__(engine._subject, "draw", drawn)
    return seen


def one_by_one(case: Case, engine: GradientEngine, batches: list[Batch], owners: list[int]) -> Any:
    """The clipped sum by autograd, one record at a time, from the batches an engine saw."""
    many = case.multiplicity
    sums: dict[int, torch.Tensor] = {}
    position = 0
    for batch in batches:
        for record in range(len(batch) // many):
            if position == len(owners):
                break
            rows = batch.rows(record * many, (record + 1) * many)
            value = case.loss(engine.bound.models, rows, {}).mean()
            grads = torch.autograd.grad(value, engine.bound.parameters)
            flat = torch.cat([g.reshape(-1) for g in grads]).double()
            sums[owners[position]] = sums.get(owners[position], 0) + flat
            position += 1
    assert position == len(owners)
    clip = engine._clip
    return sum(g * min(1.0, clip / float(g.norm())) for g in sums.values())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_equal_a_loop_over_records(backend: str, name: str) -> None:
    case = CASES[name]
    data = records(13, units=case.units, soft=case.soft)
    engine = engine_of(case, backend, data)
    engine.run_trials({})
    batches = batches_of(engine)
    index = UnitIndex(data)
    chosen = np.arange(len(index))[::2]
    _, owners = index.rows(chosen)
    result = engine.clipped_sum(chosen, {})
    expected = one_by_one(case, engine, batches, owners.tolist())
    assert result.units == len(chosen)
    assert float((result.total - expected).norm()) <= 1e-5 * float(expected.norm())


@pytest.mark.parametrize("name", ["mlp", "critic", "two models", "units", "called twice"])
def test_backends_agree_with_each_other(name: str) -> None:
    case = CASES[name]
    data = records(13, units=case.units)
    sums = []
    for backend in BACKENDS:
        engine = engine_of(case, backend, data)
        everybody = np.arange(len(UnitIndex(data)))
        sums.append(engine.clipped_sum(everybody, {}).total)
    for other in sums[1:]:
        assert float((sums[0] - other).norm()) <= 1e-5 * float(sums[0].norm())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["mlp", "critic", "two models", "multiplicity", "units"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_unit_adds_at_most_the_clip(backend: str, name: str, precision: str) -> None:
    """One joint clip over all models, draws and records of a unit, in every precision."""
    case = CASES[name]
    data = records(13, units=case.units)
    engine = engine_of(case, backend, data, clip=1e-3, precision=precision)
    for unit in range(len(UnitIndex(data))):
        total = engine.clipped_sum(np.array([unit]), {}).total
        assert 0.999e-3 <= float(total.norm()) <= 1e-3, "longer than the clip"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e38])
def test_a_record_that_is_not_finite_harms_only_itself(backend: str, poison: float) -> None:
    data = records(6)
    features = data.features.astype(np.float32).reshape(6, 16) / 255.0
    features[2] = poison
    table = Records(features, data.attributes, data.schema)
    case = CASES["mlp"]
    engine = engine_of(case, backend, table)
    others = engine.clipped_sum(np.array([0, 1, 3, 4, 5]), {}).total
    with_it = engine.clipped_sum(np.arange(6), {}).total
    assert torch.isfinite(with_it).all()
    assert float((with_it - others).norm()) <= 0.5
    alone = engine.clipped_sum(np.array([2]), {}).total
    assert float((with_it - others - alone).norm()) <= 1e-5


@pytest.mark.parametrize("backend", BACKENDS)
def test_nobody_chosen_sums_to_zero(backend: str) -> None:
    engine = engine_of(CASES["mlp"], backend, records(5))
    result = engine.clipped_sum(np.array([], dtype=np.int64), {})
    assert (result.units, float(result.total.abs().max())) == (0, 0.0)
    assert torch.isnan(result.mean_loss)


@pytest.mark.parametrize("backend", BACKENDS)
def test_micro_batches_have_one_shape_and_pad_never_truncate(backend: str) -> None:
    case = CASES["mlp"]
    engine = engine_of(case, backend, records(13))
    engine.run_trials({})
    batches = batches_of(engine)
    for count in (1, 4, 5, 13):
        batches.clear()
        assert engine.clipped_sum(np.arange(count), {}).units == count
        assert [len(b) for b in batches] == [4] * -(-count // 4)


def test_noises_in_pairs_are_a_records_own_and_cancel_in_the_last_micro_batch_too() -> None:
    case = CASES["noises in pairs"]
    engine = engine_of(case, "vmap", records(5))
    engine.run_trials({})
    batches = batches_of(engine)
    engine.clipped_sum(np.arange(5), {})
    assert len(batches) == 2
    for batch in batches:
        noise = batch.draws["noise_mirrored"].reshape(-1, case.multiplicity, 16)
        assert (noise[:, 0::2] == -noise[:, 1::2]).all()
        assert len(noise.abs().flatten().unique()) == noise.numel() // 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_callers_models_are_left_as_they_were(backend: str) -> None:
    case = CASES["critic"]
    engine = engine_of(case, backend, records(6))
    before = {k: v.clone() for k, v in engine.bound.models[0].state_dict().items()}
    engine.clipped_sum(np.arange(6), {})
    after = engine.bound.models[0].state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    for parameter in engine.bound.parameters:
        assert parameter.grad is None
        assert getattr(parameter, "grad_sample", None) is None
    value = case.loss(engine.bound.models, make_batch(records(3), np.arange(3), CPU), {}).sum()
    value.backward()
    assert all(getattr(p, "grad_sample", None) is None for p in engine.bound.parameters)


class Counting(nn.Module):
    """Counts its passes, of which there are as many as the records drawn make."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.passes = nn.Linear(16, 3), 0
        self.last: torch.Tensor | None = None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        scores: torch.Tensor = self.linear(images.flatten(1))
        return scores


class Keeping(Counting):
    """And keeps what went through it last, with all that it was computed from."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.last = super().forward(images)
        return self.last


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
@pytest.mark.parametrize("kind", [Counting, Keeping])
def test_models_do_not_learn_how_many_records_were_drawn(
    kind: type[Counting], backend: str
) -> None:
    model = kind()
    engine = engine_of(Case(lambda: [model], classify), backend, records(13))
    engine.run_trials({})
    passes, last = model.passes, model.last
    for many in (1, 13):
        engine.clipped_sum(np.arange(many), {})
    assert model.passes == passes, "the model counted passes of private records"
    assert model.last is last


class Tracking(nn.Module):
    """Keeps a running mean of what it sees: an un-noised statistic of private records."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)
        self.register_buffer("seen", torch.zeros(16))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = images.flatten(1)
        self.seen += flat.detach().mean(dim=0)
        return self.linear(flat)


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_weights_frozen_or_not_and_buffers_are_followed(backend: str) -> None:
    """Twins must not go on with the weights of the first step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3))
    model[1].weight.requires_grad_(False)
    model.register_buffer("scale", torch.ones(1))

    engine = engine_of(Case(lambda: [model], classify), backend, records(6))
    engine.clipped_sum(np.arange(6), {})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3)
    moved = engine.clipped_sum(np.arange(6), {}).total
    fresh = engine_of(Case(lambda: [model], classify), backend, records(6))
    assert torch.allclose(moved, fresh.clipped_sum(np.arange(6), {}).total, atol=1e-6)


class Folded(nn.Module):
    """Treats the rows of each image as a batch of their own: hooks see other rows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.linear(images.reshape(-1, 4)).reshape(len(images), -1)


class Bypassed(nn.Module):
    """Uses a layer's weight without calling the layer: hooks never see it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(images.flatten(1), self.linear.weight)


class AskingForPrecision(nn.Module):
    """Asks for the precision of its first parameter, and fails where it has none."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        for parameter in self.parameters():
            precision = parameter.dtype
        said: torch.Tensor = self.linear(images.flatten(1).to(precision))
        return said


def test_a_backend_whose_twins_a_network_does_not_accept_is_not_used() -> None:
    engine = engine_of(Case(lambda: [AskingForPrecision()], classify), "auto", records(6))
    engine.run_trials({})
    assert not isinstance(engine._backend, ExpandedBackend)


@pytest.mark.parametrize("make", [Folded, Bypassed])
def test_a_backend_that_gets_gradients_wrong_is_not_used(make: type[nn.Module]) -> None:
    """Found out on random records, before any private one is touched."""

    @frozen
    def loss(models: Models, batch: Batch) -> torch.Tensor:
        return models[0](batch.features).pow(2).sum(dim=1)

    torch.manual_seed(0)
    case = Case(lambda: [make()], loss)
    with pytest.raises(PrivacyError, match="record by record"):
        engine_of(case, "expanded", records(6)).run_trials({})
    engine = engine_of(case, "auto", records(6))
    engine.run_trials({})
    assert isinstance(engine._backend, VmapBackend)


def test_backend_and_pace_are_found_on_random_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a trial that sees no record: the choice cannot depend on one."""
    trials: list[Batch] = []

    def timed(work: Any, device: torch.device) -> float:
        assert device == CPU
        backend, trial, _ = work.args
        trials.append(trial)
        assert backend.name == "expanded"
        return 3.0

    monkeypatch.setattr(engine_module, "time_of", timed)
    chosen = []
    for seed in (1, 2):
        engine = engine_of(CASES["mlp"], "auto", records(20, seed=seed))
        engine.run_trials({})
        chosen.append(type(engine._backend))
        assert engine.step_seconds == pytest.approx(3.0 * 6.0 / 4)
    assert chosen == [ExpandedBackend, ExpandedBackend]
    assert all(torch.equal(trials[0].features, t.features) for t in trials)


@pytest.mark.parametrize("failing", [(0, 1), (0,), (0, 1, 2, 4)])
def test_a_trial_that_fails_is_repeated_on_the_same_and_on_other_rows(
    failing: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[torch.Tensor] = []

    def check(_: object, __: object, batch: Batch) -> None:
        tried.append(batch.features)
        if len(tried) - 1 in failing:
            raise PrivacyError("mixes")

    monkeypatch.setattr(trials_module, "check_loss", check)
    engine = engine_of(CASES["mlp"], "vmap", records(6))
    if failing == (0, 1):
        engine.run_trials({})
    else:
        with pytest.raises(PrivacyError, match="mixes"):
            engine.run_trials({})
    assert all(len(rows) == TRIAL_ROWS for rows in tried)
    assert torch.equal(tried[0], tried[1])
    assert all(not torch.equal(tried[0], rows) for rows in tried[2:])


@pytest.mark.parametrize("every", [13, 17, 29])
def test_a_loss_that_mixes_records_now_and_then_is_refused(every: int) -> None:
    calls = [0]

    @frozen
    def loss(models: Models, batch: Batch) -> torch.Tensor:
        calls[0] += 1
        values = classify(models, batch, {})
        return values - values.mean() if calls[0] % every == 0 and len(values) > 1 else values

    engine = engine_of(Case(CASES["mlp"].models, loss), "expanded", records(6))

    def blocks() -> None:
        for _ in range(60):
            engine.run_trials({})
            engine.clipped_sum(np.arange(6), {})

    with pytest.raises(PrivacyError, match=r"mixes|each record's own|moves what the others add"):
        blocks()


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_a_loss_that_mixes_records_is_refused(backend: str) -> None:
    @frozen
    def mean_loss(models: Models, batch: Batch) -> torch.Tensor:
        return classify(models, batch, {}).mean().expand(len(batch))

    engine = engine_of(Case(CASES["mlp"].models, mean_loss), backend, records(6))
    with pytest.raises(PrivacyError, match="mixes the records"):
        engine.run_trials({})


class Hidden(nn.Module):
    """Mixes the batch inside a branch that begins at zero, before a head that does."""

    def __init__(self, mixes: bool) -> None:
        super().__init__()
        self.into, self.branch, self.out = nn.Linear(16, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.mixes = mixes
        for layer in (self.branch, self.out):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.into(images.flatten(1))
        inner = torch.tanh(x)
        if self.mixes:
            inner = inner - inner.mean(dim=0)
        return self.out(x + self.branch(inner))


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_mixing_behind_layers_that_begin_at_zero_is_refused(backend: str) -> None:
    """It shows nowhere before training: neither in values nor in gradients."""
    torch.manual_seed(0)
    sound = engine_of(Case(lambda: [Hidden(mixes=False)], classify), backend, records(6))
    sound.run_trials({})
    assert not sound.bound.models[0].out.weight.any(), "the check leaves parameters as they were"
    engine = engine_of(Case(lambda: [Hidden(mixes=True)], classify), backend, records(6))
    with pytest.raises(PrivacyError, match="mixes the records"):
        engine.run_trials({})


def test_a_loss_that_sorts_its_rows_is_not_given_to_a_backend_that_tells_rows_by_place() -> None:
    @frozen
    def sorting(models: Models, batch: Batch) -> torch.Tensor:
        order = batch.labels.argsort(stable=True)
        scores = models[0](batch.features[order])[order.argsort()]
        return nn.functional.cross_entropy(scores, batch.labels, reduction="none")

    with pytest.raises(PrivacyError, match="record by record"):
        engine_of(Case(CASES["mlp"].models, sorting), "expanded", records(6)).run_trials({})


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_models_that_share_a_parameter_are_refused(backend: str) -> None:
    model = mlp(0, 16, 16)
    with pytest.raises(PrivacyError, match="share a parameter"):
        engine_of(Case(lambda: [model, model], joint_loss), backend, records(6))


def test_models_with_batch_norm_or_nothing_to_train_are_refused() -> None:
    normed = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3))
    with pytest.raises(PrivacyError, match="BatchNorm1d"):
        engine_of(Case(lambda: [normed], classify), "auto", records(6))
    still = mlp().requires_grad_(False)
    with pytest.raises(UserError, match="no trainable parameter"):
        engine_of(Case(lambda: [still], classify), "auto", records(6))


def test_trainable_parameters_are_taken_once_and_in_order() -> None:
    model = mlp()
    assert [id(p) for p in trainable([model, model])] == [id(p) for p in model.parameters()]


@pytest.mark.parametrize(
    ("wrong", "refused"),
    [
        (lambda g: g.roll(1, 0), True),
        (lambda g: g.mean(dim=0, keepdim=True).expand_as(g), True),
        (lambda g: torch.zeros_like(g), True),
        (lambda g: g * 1.01, True),
        (lambda g: g * (1 + 1e-4), False),
    ],
    ids=["another record's", "the mean", "lost", "scaled", "rounded"],
)
def test_a_backend_is_held_against_each_record_alone(
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[torch.Tensor], torch.Tensor],
    refused: bool,
) -> None:
    """But not for rounding: deep networks on GPUs differ by more than one row's check allows."""
    right = VmapBackend.per_example

    def per_example(self: VmapBackend, *arguments: Any) -> Any:
        values, gradients = right(self, *arguments)
        return values, tuple(map(wrong, gradients))

    monkeypatch.setattr(VmapBackend, "per_example", per_example)
    engine = engine_of(CASES["mlp"], "vmap", records(6))
    if refused:
        with pytest.raises(PrivacyError, match="each record's own"):
            engine.run_trials({})
    else:
        engine.run_trials({})


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(16, 8), nn.Linear(8, 3)


class ScaledTogether(TwoLayers):
    """Mixes rows where it computes in low precision, and only there."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = self.first(images.flatten(1))
        if seen.dtype == torch.bfloat16:
            seen = 4 * seen / seen.detach().abs().amax()
        return self.last(torch.tanh(seen))


@pytest.mark.parametrize("backend", ["expanded"])
def test_mixing_in_low_precision_alone_is_refused(backend: str) -> None:
    case = Case(lambda: [ScaledTogether()], classify)
    engine_of(case, backend, records(6)).run_trials({})
    with pytest.raises(PrivacyError, match="each record's own"):
        engine_of(case, backend, records(6), precision="bfloat16").run_trials({})


def test_a_compiled_gradient_that_is_wrong_in_the_middle_alone_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tile of its own, which neither end of a micro-batch meets."""
    monkeypatch.setattr(choice_module, "CompiledBackend", Traced)
    engine_of(CASES["mlp"], "compiled", records(6)).run_trials({})
    right = record_functions.Linear.backward

    def off(ctx: Any, *slopes: torch.Tensor) -> Any:
        onwards, moved, shifted = right(ctx, *slopes)
        many = 0 if moved is None else len(moved)
        if many > TRIAL_ROWS:
            moved = moved.clone()
            moved[many // 3 : many // 2] *= 2
        return onwards, moved, shifted

    monkeypatch.setattr(record_functions.Linear, "backward", staticmethod(off))
    engine = engine_of(CASES["mlp"], "compiled", records(6))
    engine._rows = 64
    with pytest.raises(PrivacyError, match="each record's own"):
        engine.run_trials({})


@pytest.mark.parametrize("backend", ["expanded", "compiled"])
def test_a_kernel_that_adds_neighbours_in_low_precision_is_refused(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same pairs in what is compared and in what it is compared with would not show it."""
    monkeypatch.setattr(choice_module, "CompiledBackend", Traced)
    engine_of(CASES["mlp"], backend, records(6), precision="bfloat16").run_trials({})
    right = record_functions.Linear.backward

    def paired(ctx: Any, *slopes: torch.Tensor) -> Any:
        onwards, moved, shifted = right(ctx, *slopes)
        if moved is not None and moved.dtype == torch.bfloat16 and len(moved) % 2 == 0:
            pairs = moved.unflatten(0, (-1, 2))
            moved = (pairs + pairs.flip(1)).flatten(0, 1)
        return onwards, moved, shifted

    monkeypatch.setattr(record_functions.Linear, "backward", staticmethod(paired))
    engine_of(CASES["mlp"], backend, records(6)).run_trials({})
    with pytest.raises(PrivacyError, match="each record's own"):
        engine_of(CASES["mlp"], backend, records(6), precision="bfloat16").run_trials({})


class Greedy(ExpandedBackend):
    """Runs out of memory on more than two records at once."""

    def per_example(self, loss: Loss, batch: Batch, values: Values, multiplicity: int) -> Any:
        if len(batch) // multiplicity not in (1, 2, TRIAL_ROWS):
            raise torch.OutOfMemoryError("a test")
        return super().per_example(loss, batch, values, multiplicity)


def test_a_step_that_runs_out_of_memory_is_taken_in_smaller_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, data, chosen = CASES["critic"], records(13), np.array([0, 2, 3, 7, 8, 12])
    expected = engine_of(case, "expanded", data).clipped_sum(chosen, {})
    monkeypatch.setattr(choice_module, "ExpandedBackend", Greedy)
    engine = engine_of(case, "expanded", data)
    engine.run_trials({})
    engine._rows = 8
    found = engine.clipped_sum(chosen, {})
    assert engine._rows == 2
    assert (found.units, found.clipped) == (expected.units, expected.clipped)
    assert torch.allclose(found.total, expected.total, atol=1e-7), "other units than were drawn"


class _Full(torch.autograd.Function):
    """Memory that runs out in the middle of a backward pass, once."""

    left: ClassVar[int] = 0

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        del ctx
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> torch.Tensor:
        del ctx
        _Full.left -= 1
        if _Full.left == 0:
            raise torch.OutOfMemoryError("a test")
        return slopes[0]


class HalfWay(TwoLayers):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(called(_Full.apply, torch.tanh(self.first(images.flatten(1)))))


@pytest.mark.parametrize("backend", ["expanded"])
def test_memory_that_runs_out_half_way_back_leaves_nothing_behind(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(Case(lambda: [HalfWay()], classify), backend, records(8))
    expected = engine.clipped_sum(np.arange(8), {}).total
    monkeypatch.setattr(_Full, "left", 2)
    found = engine.clipped_sum(np.arange(8), {}).total
    assert engine._rows == 2
    assert torch.allclose(found, expected, atol=1e-7)


def test_memory_that_is_too_small_for_one_record_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> Any:
        raise torch.OutOfMemoryError("a test")

    engine = engine_of(CASES["mlp"], "expanded", records(6))
    engine.run_trials({})
    monkeypatch.setattr(ExpandedBackend, "per_example", never)
    with pytest.raises(torch.OutOfMemoryError):
        engine.clipped_sum(np.arange(6), {})


class Traced(CompiledBackend):
    """Compiled without a compiler, and wrong where the test says."""

    most, mixes_at = 99, 0

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__(models, through="eager")

    def per_example(self, loss: Loss, batch: Batch, values: Values, multiplicity: int) -> Any:
        rows = len(batch) // multiplicity
        if rows > self.most:
            raise torch.OutOfMemoryError("a test")
        losses, gradients = super().per_example(loss, batch, values, multiplicity)
        if rows == self.mixes_at:
            gradients = tuple(piece.flip(0) for piece in gradients)
        return losses, gradients


class Longer(PieceSums):
    def squares(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        return 0.25 * super().squares(values)


def test_a_shape_that_memory_asks_for_is_checked_before_records_meet_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another shape is compiled anew, and may go wrong where the first did not."""
    case = CASES["mlp"]
    monkeypatch.setattr(choice_module, "CompiledBackend", Traced)
    monkeypatch.setattr(Traced, "mixes_at", 2)
    engine = engine_of(case, "compiled", records(13))
    engine.run_trials({})
    monkeypatch.setattr(Traced, "most", 2)
    with pytest.raises(PrivacyError, match="each record's own"):
        engine.clipped_sum(np.arange(6), {})
    monkeypatch.setattr(Traced, "mixes_at", 0)
    assert engine.clipped_sum(np.arange(6), {}).units == 6


def test_compiled_sums_are_held_against_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["mlp"]
    monkeypatch.setattr(choice_module, "CompiledBackend", Traced)
    engine_of(case, "compiled", records(6)).run_trials({})
    monkeypatch.setattr(engine_module, "FusedSums", lambda _: Longer())
    with pytest.raises(PrivacyError, match="are not those of their rows"):
        engine_of(case, "compiled", records(6)).run_trials({})


def test_a_person_with_two_records_changes_no_digit_of_the_others_sum() -> None:
    """Whether somebody has two is private, so it may not choose the arithmetic."""
    case, names = CASES["critic"], [f"p{n:02}" for n in range(13)]
    more = records(15, units=[*names, "z", "z"])
    alone = more.select(np.arange(13))
    found = [
        engine_of(case, "expanded", data).clipped_sum(np.arange(13), {}).total
        for data in (alone, more)
    ]
    assert torch.equal(*found), "the others' sum moved"
