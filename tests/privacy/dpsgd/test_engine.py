"""Both backends give the clipped sum of a plain one-record loop, for all that methods use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import classify, mlp, records
from understudy.data.records import Records
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.batch import TRIAL_ROWS, Batch, Draws, make_batch
from understudy.privacy.dpsgd import engine as gradients_module
from understudy.privacy.dpsgd import knobs as knobs_module
from understudy.privacy.dpsgd.backends import record_functions
from understudy.privacy.dpsgd.backends.base import Loss, trainable
from understudy.privacy.dpsgd.backends.compiled import CompiledBackend
from understudy.privacy.dpsgd.backends.expanded import ExpandedBackend
from understudy.privacy.dpsgd.backends.opacus import OpacusBackend
from understudy.privacy.dpsgd.backends.record_functions import called
from understudy.privacy.dpsgd.backends.vmap import VmapBackend
from understudy.privacy.dpsgd.engine import GradientEngine
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.gradient_pieces import Pieces, PieceSums
from understudy.privacy.sums.units import UnitIndex

CPU = torch.device("cpu")
BACKENDS = ("expanded", "vmap", "opacus")


class Stage(Enum):
    OWN = 0
    MIXED = 1


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


def critic_loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
    return nn.functional.softplus(-models[0](batch.features, batch.labels))


def noisy_loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
    noised = batch.features + batch.draws["level"].abs() * batch.draws["noise"]
    return ((models[0](noised) - 1.0) ** 2).sum(dim=1) * batch.draws["uniform weight"]


def paired_loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
    noised = batch.features + batch.draws["level_paired"] * batch.draws["noise_mirrored"]
    return ((models[0](noised) - 1.0) ** 2).sum(dim=1)


def joint_loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
    encode, decode = models
    return ((decode(encode(batch.features)) - batch.features.flatten(1)) ** 2).sum(dim=1)


def twice_loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
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
    return GradientEngine(
        case.models(), mechanism, speed, data, UnitIndex(data), NoiseSource(), expected=6.0
    )


def recording(engine: GradientEngine) -> list[Batch]:
    """The batches that an engine computes gradients on, as it makes them."""
    seen: list[Batch] = []
    dress = engine._dress

    def dressed(batch: Batch, draws: Draws) -> Batch:
        seen.append(dress(batch, draws))
        return seen[-1]

    engine._dress = dressed  # type: ignore[method-assign]
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
            value = case.loss(engine.models, rows).mean()
            grads = torch.autograd.grad(value, engine.parameters)
            flat = torch.cat([g.reshape(-1) for g in grads]).double()
            sums[owners[position]] = sums.get(owners[position], 0) + flat
            position += 1
    assert position == len(owners)
    clip = engine._mechanism.clip
    return sum(g * min(1.0, clip / float(g.norm())) for g in sums.values())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_equal_a_loop_over_records(backend: str, name: str) -> None:
    case = CASES[name]
    data = records(13, units=case.units, soft=case.soft)
    engine = engine_of(case, backend, data)
    engine.prepare(case.loss, case.draws)
    batches = recording(engine)
    index = UnitIndex(data)
    chosen = np.arange(len(index))[::2]
    _, owners = index.rows(chosen)
    result = engine.clipped_sum(case.loss, case.draws, chosen)
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
        sums.append(engine.clipped_sum(case.loss, case.draws, everybody).total)
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
        total = engine.clipped_sum(case.loss, case.draws, np.array([unit])).total
        norm = float(total.float().norm())
        assert 0.999e-3 <= norm <= 1e-3 * (1 + 1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e38])
def test_a_record_that_is_not_finite_harms_only_itself(backend: str, poison: float) -> None:
    data = records(6)
    features = data.features.astype(np.float32).reshape(6, 16) / 255.0
    features[2] = poison
    table = Records(features, data.attributes, data.schema)
    case = CASES["mlp"]
    engine = engine_of(case, backend, table)
    others = engine.clipped_sum(classify, {}, np.array([0, 1, 3, 4, 5])).total
    with_it = engine.clipped_sum(classify, {}, np.arange(6)).total
    assert torch.isfinite(with_it).all()
    assert float((with_it - others).norm()) <= 0.5 * (1 + 1e-6)
    alone = engine.clipped_sum(classify, {}, np.array([2])).total
    assert float((with_it - others - alone).norm()) <= 1e-5


@pytest.mark.parametrize("backend", BACKENDS)
def test_nobody_chosen_sums_to_zero(backend: str) -> None:
    engine = engine_of(CASES["mlp"], backend, records(5))
    result = engine.clipped_sum(classify, {}, np.array([], dtype=np.int64))
    assert (result.units, float(result.total.abs().max())) == (0, 0.0)
    assert torch.isnan(result.mean_loss)


@pytest.mark.parametrize("backend", BACKENDS)
def test_micro_batches_have_one_shape_and_pad_never_truncate(backend: str) -> None:
    case = CASES["mlp"]
    engine = engine_of(case, backend, records(13))
    engine.prepare(classify, {})
    batches = recording(engine)
    for count in (1, 4, 5, 13):
        batches.clear()
        assert engine.clipped_sum(classify, {}, np.arange(count)).units == count
        assert [len(b) for b in batches] == [4] * -(-count // 4)


def test_noises_in_pairs_are_a_records_own_and_cancel_in_the_last_micro_batch_too() -> None:
    case = CASES["noises in pairs"]
    engine = engine_of(case, "vmap", records(5))
    engine.prepare(case.loss, case.draws)
    batches = recording(engine)
    engine.clipped_sum(case.loss, case.draws, np.arange(5))
    assert len(batches) == 2
    for batch in batches:
        noise = batch.draws["noise_mirrored"].reshape(-1, case.multiplicity, 16)
        assert (noise[:, 0::2] == -noise[:, 1::2]).all()
        assert len(noise.abs().flatten().unique()) == noise.numel() // 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_callers_models_are_left_as_they_were(backend: str) -> None:
    case = CASES["critic"]
    engine = engine_of(case, backend, records(6))
    before = {k: v.clone() for k, v in engine.models[0].state_dict().items()}
    engine.clipped_sum(case.loss, {}, np.arange(6))
    after = engine.models[0].state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    for parameter in engine.parameters:
        assert parameter.grad is None
        assert getattr(parameter, "grad_sample", None) is None
    value = case.loss(engine.models, make_batch(records(3), np.arange(3), CPU)).sum()
    value.backward()
    assert all(getattr(p, "grad_sample", None) is None for p in engine.parameters)


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
    engine.prepare(classify, {})
    passes, last = model.passes, model.last
    for many in (1, 13):
        engine.clipped_sum(classify, {}, np.arange(many))
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


def test_what_a_forward_pass_writes_into_buffers_does_not_stay() -> None:
    case = Case(lambda: [Tracking()], classify)
    with pytest.raises(PrivacyError, match="record by record"):
        engine_of(case, "vmap", records(6)).prepare(classify, {})
    engine = engine_of(case, "opacus", records(6))
    engine.prepare(classify, {})
    before = engine.models[0].seen.clone()
    engine.clipped_sum(classify, {}, np.arange(6))
    assert torch.equal(engine.models[0].seen, before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_weights_frozen_or_not_and_buffers_are_followed(backend: str) -> None:
    """The twin that Opacus hooks must not go on with the weights of the first step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3))
    model[1].weight.requires_grad_(False)
    model.register_buffer("scale", torch.ones(1))

    def loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
        return classify(models, batch)

    engine = engine_of(Case(lambda: [model], loss), backend, records(6))
    engine.clipped_sum(loss, {}, np.arange(6))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3)
    moved = engine.clipped_sum(loss, {}, np.arange(6)).total
    fresh = engine_of(Case(lambda: [model], loss), backend, records(6))
    assert torch.allclose(moved, fresh.clipped_sum(loss, {}, np.arange(6)).total, atol=1e-6)


class Faded(nn.Module):
    """Three knobs that are neither parameters nor buffers, one among others as peft keeps its
    own, and a note of what went through."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)
        self.alpha, self.shift, self.last = 0.5, torch.zeros(3), torch.zeros(3)
        self.scaling = {"default": 1.0}

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scale = self.alpha * self.scaling["default"]
        scores = scale * self.linear(images.flatten(1)) + self.shift
        self.last.copy_(scores.detach().sum(dim=0))
        return scores if self.training else 2.0 * scores


@pytest.mark.parametrize("backend", ["expanded", "opacus"])
def test_knobs_that_a_method_turns_between_steps_are_followed(backend: str) -> None:
    torch.manual_seed(0)
    data, model = records(6), Faded()
    case = Case(lambda: [model], classify)
    engine = engine_of(case, backend, data)
    engine.prepare(classify, {})
    model.alpha, model.shift = 1.5, torch.tensor([3.0, 0.0, -3.0])
    model.scaling["default"] = 0.5
    model.train(backend == "opacus")
    engine.prepare(classify, {})
    seen = recording(engine)
    model.last = torch.zeros(3)
    found = engine.clipped_sum(classify, {}, np.arange(6))
    assert not model.last.any(), "what a forward pass writes does not stay in the model"
    expected = one_by_one(case, engine, seen, list(range(6)))
    assert torch.allclose(found.total, expected, atol=1e-6)


def test_an_engine_serves_only_the_parameters_it_was_made_for() -> None:
    engine = engine_of(CASES["mlp"], "vmap", records(6))
    model = engine.models[0]
    assert engine.serves([model])
    assert not engine.serves([mlp()])
    frozen = engine_of(Case(lambda: [mlp()], classify), "vmap", records(6)).models[0]
    frozen[1].weight.requires_grad_(False)
    with_frozen = engine_of(Case(lambda: [frozen], classify), "vmap", records(6))
    assert with_frozen.serves([frozen])
    frozen[1].weight = nn.Parameter(torch.zeros(8, 16), requires_grad=False)
    assert not with_frozen.serves([frozen])
    model[1].weight.requires_grad_(False)
    assert not engine.serves([model])


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
    engine.prepare(classify, {})
    assert not isinstance(engine._backend, ExpandedBackend)


@pytest.mark.parametrize("make", [Folded, Bypassed])
def test_a_backend_that_gets_gradients_wrong_is_not_used(make: type[nn.Module]) -> None:
    """Found out on random records, before any private one is touched."""

    def loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
        return models[0](batch.features).pow(2).sum(dim=1)

    torch.manual_seed(0)
    case = Case(lambda: [make()], loss)
    with pytest.raises(PrivacyError, match="record by record"):
        engine_of(case, "opacus", records(6)).prepare(loss, {})
    engine = engine_of(case, "auto", records(6))
    engine.prepare(loss, {})
    assert isinstance(engine._backend, VmapBackend)


def test_the_faster_backend_is_chosen_on_random_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a trial that sees no record: the choice cannot depend on one."""
    trials: list[Batch] = []

    def timed(work: Any, device: torch.device) -> float:
        assert device == CPU
        backend, _, trial = work.args
        trials.append(trial)
        return {"expanded": 3.0, "vmap": 2.0, "opacus": 1.0}[backend.name]

    monkeypatch.setattr(gradients_module, "_time", timed)
    chosen = []
    for seed in (1, 2):
        engine = engine_of(CASES["mlp"], "auto", records(20, seed=seed))
        engine.prepare(classify, {})
        chosen.append(type(engine._backend))
        assert engine.step_seconds == pytest.approx(1.0 * 6.0 / 4)
    assert chosen == [OpacusBackend, OpacusBackend]
    assert all(torch.equal(trials[0].features, t.features) for t in trials)


def test_a_loss_is_checked_once_and_another_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []
    monkeypatch.setattr(gradients_module, "check_loss", lambda *_: checks.append(1))
    engine = engine_of(CASES["mlp"], "vmap", records(6))

    def make(inner: Loss) -> Loss:
        return lambda models, batch: inner(models, batch)

    for _ in range(3):
        engine.prepare(make(classify), {})
    assert len(checks) == 1
    engine.prepare(make(twice_loss), {})
    assert len(checks) == 2


@pytest.mark.parametrize("failing", [(0, 1), (0,), (0, 1, 2, 4)])
def test_a_trial_that_fails_is_repeated_on_the_same_and_on_other_rows(
    failing: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[torch.Tensor] = []

    def check(_: object, __: object, batch: Batch) -> None:
        tried.append(batch.features)
        if len(tried) - 1 in failing:
            raise PrivacyError("mixes")

    monkeypatch.setattr(gradients_module, "check_loss", check)
    engine = engine_of(CASES["mlp"], "vmap", records(6))
    if failing == (0, 1):
        engine.prepare(classify, {})
    else:
        with pytest.raises(PrivacyError, match="mixes"):
            engine.prepare(classify, {})
    assert all(len(rows) == TRIAL_ROWS for rows in tried)
    assert torch.equal(tried[0], tried[1])
    assert all(not torch.equal(tried[0], rows) for rows in tried[2:])


class Scheduled(nn.Module):
    """Its scale lies in an object of its own, and a child bears a name that the engine uses."""

    def __init__(self) -> None:
        super().__init__()
        self.original, self.schedule, self.scale = nn.Linear(16, 3), SimpleNamespace(gain=1.0), 0.5
        self.act: Callable[[torch.Tensor], torch.Tensor] = torch.tanh

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.schedule.gain * self.scale * self.act(self.original(images.flatten(1)))


@pytest.mark.parametrize(
    ("turned", "backend"),
    [*((turned, b) for turned in ("scale", "act") for b in BACKENDS), ("gain", "vmap")],
)
def test_models_are_computed_as_they_are_now(turned: str, backend: str) -> None:
    """The others follow plain attributes, and not those of objects that a model holds."""
    torch.manual_seed(0)
    model = Scheduled()
    case = Case(lambda: [model], classify)
    engine = engine_of(case, backend, records(6))
    engine.clipped_sum(classify, {}, np.arange(6))
    if turned == "gain":
        model.schedule.gain = 2.0
    else:
        setattr(model, turned, {"scale": 4.0, "act": torch.sin}[turned])
    engine.prepare(classify, {})
    seen = recording(engine)
    found = engine.clipped_sum(classify, {}, np.arange(6))
    expected = one_by_one(case, engine, seen, list(range(6)))
    assert torch.allclose(found.total, expected, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_that_is_turned_back_is_computed_as_it_is(backend: str) -> None:
    torch.manual_seed(0)
    model = Scheduled()
    case = Case(lambda: [model], classify)
    engine = engine_of(case, backend, records(6))
    for act in (torch.tanh, torch.sin, torch.tanh):
        model.act = act
        engine.prepare(classify, {})
        seen = recording(engine)
        found = engine.clipped_sum(classify, {}, np.arange(6))
        expected = one_by_one(case, engine, seen, list(range(6)))
        assert torch.allclose(found.total, expected, atol=1e-6), act


@pytest.mark.parametrize("every", [13, 17, 29])
def test_a_loss_that_mixes_records_now_and_then_is_refused(every: int) -> None:
    calls = [0]

    def loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
        calls[0] += 1
        values = classify(models, batch)
        return values - values.mean() if calls[0] % every == 0 and len(values) > 1 else values

    engine = engine_of(CASES["mlp"], "expanded", records(6))

    def steps() -> None:
        for _ in range(120):
            engine.clipped_sum(loss, {}, np.arange(6))

    with pytest.raises(PrivacyError, match=r"mixes|each record's own"):
        steps()


def test_a_loss_whose_option_was_changed_is_checked_again() -> None:
    engine = engine_of(CASES["mlp"], "expanded", records(6))

    def made(stage: int | str | Stage | np.int64, weight: float = 1.0) -> Loss:
        def loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
            values = classify(models, batch)
            mixed = stage in (1, "mixed", Stage.MIXED)
            return values - weight * values.mean() if mixed else values

        return loss

    for stage in (0, "own", Stage.OWN, np.int64(0)):
        engine.prepare(made(stage), {})
    engine.prepare(made(1, weight=0.0), {})
    for stage in (1, "mixed", Stage.MIXED, np.int64(1)):
        with pytest.raises(PrivacyError, match="mixes"):
            engine.clipped_sum(made(stage), {}, np.arange(6))


class Turned(nn.Module):
    """Mixes records once it is told to: a statistic of a batch that is faded in, say."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.stage = nn.Linear(16, 3), 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.linear(images.flatten(1))
        return scores - scores.mean(dim=0) if self.stage else scores


class Staged:
    """A method whose loss is its own, and reads what the method sets."""

    def __init__(self) -> None:
        self.stage = 0

    def loss(self, models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
        values = classify(models, batch)
        return values - values.mean() if self.stage else values


@pytest.mark.parametrize("backend", ["expanded", "opacus"])
@pytest.mark.parametrize("turned", ["model", "method"])
def test_what_was_turned_after_its_check_is_checked_again(turned: str, backend: str) -> None:
    torch.manual_seed(0)
    model, method = Turned(), Staged()
    engine = engine_of(Case(lambda: [model], method.loss), backend, records(6))
    engine.clipped_sum(method.loss, {}, np.arange(6))
    (model if turned == "model" else method).stage = 1
    with pytest.raises(PrivacyError, match="mixes"):
        engine.clipped_sum(method.loss, {}, np.arange(6))


def test_a_loss_that_is_another_in_every_step_is_told_of_once() -> None:
    torch.manual_seed(0)
    model, said = Turned(), []
    engine = engine_of(Case(lambda: [model], classify), "vmap", records(6))
    for number in range(25):
        model.steps_done = number
        engine.clipped_sum(classify, {}, np.arange(2))
        said.append(engine.notice)
        engine.notice = ""
    assert [number for number, line in enumerate(said) if line] == [9]
    assert "(a counter, say)" in said[9]


def test_where_there_is_too_much_to_look_at_every_step_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = []
    engine = engine_of(CASES["mlp"], "expanded", records(6))
    monkeypatch.setattr(gradients_module, "check_loss", lambda *_: checks.append(1))
    for most in (20_000, 5):
        monkeypatch.setattr(knobs_module, "_MOST", most)
        for _ in range(3):
            engine.clipped_sum(classify, {}, np.arange(6))
    assert len(checks) == 1 + 3


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_a_loss_that_mixes_records_is_refused(backend: str) -> None:
    def mean_loss(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
        return classify(models, batch).mean().expand(len(batch))

    engine = engine_of(CASES["mlp"], backend, records(6))
    with pytest.raises(PrivacyError, match="mixes the records"):
        engine.prepare(mean_loss, {})


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
    sound.prepare(classify, {})
    assert not sound.models[0].out.weight.any(), "the check leaves parameters as they were"
    engine = engine_of(Case(lambda: [Hidden(mixes=True)], classify), backend, records(6))
    with pytest.raises(PrivacyError, match="mixes the records"):
        engine.prepare(classify, {})


@pytest.mark.parametrize("backend", ["expanded", "opacus"])
def test_a_loss_that_sorts_its_rows_is_not_given_to_a_backend_that_tells_rows_by_place(
    backend: str,
) -> None:
    def sorting(models: Sequence[Callable[..., torch.Tensor]], batch: Batch) -> torch.Tensor:
        order = batch.labels.argsort(stable=True)
        scores = models[0](batch.features[order])[order.argsort()]
        return nn.functional.cross_entropy(scores, batch.labels, reduction="none")

    with pytest.raises(PrivacyError, match="record by record"):
        engine_of(CASES["mlp"], backend, records(6)).prepare(sorting, {})


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_models_that_share_a_parameter_are_refused(backend: str) -> None:
    model = mlp(0, 16, 16)
    with pytest.raises(PrivacyError, match="share a parameter"):
        engine_of(Case(lambda: [model, model], joint_loss), backend, records(6)).prepare(
            joint_loss, {}
        )


def test_models_with_batch_norm_or_nothing_to_train_are_refused() -> None:
    normed = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3))
    with pytest.raises(PrivacyError, match="BatchNorm1d"):
        engine_of(Case(lambda: [normed], classify), "auto", records(6)).prepare(classify, {})
    growing = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    engine = engine_of(Case(lambda: [growing], classify), "vmap", records(6))
    engine.prepare(classify, {})
    growing.append(nn.BatchNorm1d(3, affine=False))
    with pytest.raises(PrivacyError, match="BatchNorm1d"):
        engine.clipped_sum(classify, {}, np.arange(6))
    frozen = mlp().requires_grad_(False)
    with pytest.raises(UserError, match="no trainable parameter"):
        engine_of(Case(lambda: [frozen], classify), "auto", records(6))


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
    right = VmapBackend.per_record

    def per_record(self: VmapBackend, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        values, gradients = right(self, *arguments)
        return values, wrong(gradients)

    monkeypatch.setattr(VmapBackend, "per_record", per_record)
    engine = engine_of(CASES["mlp"], "vmap", records(6))
    if refused:
        with pytest.raises(PrivacyError, match="each record's own"):
            engine.prepare(classify, {})
    else:
        engine.prepare(classify, {})


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


@pytest.mark.parametrize("backend", ["expanded", "opacus"])
def test_mixing_in_low_precision_alone_is_refused(backend: str) -> None:
    case = Case(lambda: [ScaledTogether()], classify)
    engine_of(case, backend, records(6)).prepare(classify, {})
    with pytest.raises(PrivacyError, match="each record's own"):
        engine_of(case, backend, records(6), precision="bfloat16").prepare(classify, {})


def test_a_compiled_gradient_that_is_wrong_in_the_middle_alone_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tile of its own, which neither end of a micro-batch meets."""
    monkeypatch.setattr(gradients_module, "CompiledBackend", Traced)
    engine_of(CASES["mlp"], "compiled", records(6)).prepare(classify, {})
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
        engine.prepare(classify, {})


@pytest.mark.parametrize("backend", ["expanded", "compiled"])
def test_a_kernel_that_adds_neighbours_in_low_precision_is_refused(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same pairs in what is compared and in what it is compared with would not show it."""
    monkeypatch.setattr(gradients_module, "CompiledBackend", Traced)
    engine_of(CASES["mlp"], backend, records(6), precision="bfloat16").prepare(classify, {})
    right = record_functions.Linear.backward

    def paired(ctx: Any, *slopes: torch.Tensor) -> Any:
        onwards, moved, shifted = right(ctx, *slopes)
        if moved is not None and moved.dtype == torch.bfloat16 and len(moved) % 2 == 0:
            pairs = moved.unflatten(0, (-1, 2))
            moved = (pairs + pairs.flip(1)).flatten(0, 1)
        return onwards, moved, shifted

    monkeypatch.setattr(record_functions.Linear, "backward", staticmethod(paired))
    engine_of(CASES["mlp"], backend, records(6)).prepare(classify, {})
    with pytest.raises(PrivacyError, match="each record's own"):
        engine_of(CASES["mlp"], backend, records(6), precision="bfloat16").prepare(classify, {})


class Greedy(ExpandedBackend):
    """Runs out of memory on more than two records at once."""

    def per_record(self, loss: Loss, batch: Batch, multiplicity: int) -> Any:
        if len(batch) // multiplicity not in (1, 2, TRIAL_ROWS):
            raise torch.OutOfMemoryError("a test")
        return super().per_record(loss, batch, multiplicity)


def test_a_step_that_runs_out_of_memory_is_taken_in_smaller_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, data, chosen = CASES["critic"], records(13), np.array([0, 2, 3, 7, 8, 12])
    expected = engine_of(case, "expanded", data).clipped_sum(case.loss, {}, chosen)
    monkeypatch.setattr(gradients_module, "ExpandedBackend", Greedy)
    engine = engine_of(case, "expanded", data)
    engine.prepare(case.loss, {})
    engine._rows = 8
    found = engine.clipped_sum(case.loss, {}, chosen)
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


@pytest.mark.parametrize("backend", ["expanded", "opacus"])
def test_memory_that_runs_out_half_way_back_leaves_nothing_behind(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(Case(lambda: [HalfWay()], classify), backend, records(8))
    expected = engine.clipped_sum(classify, {}, np.arange(8)).total
    monkeypatch.setattr(_Full, "left", 2)
    found = engine.clipped_sum(classify, {}, np.arange(8)).total
    assert engine._rows == 2
    assert torch.allclose(found, expected, atol=1e-7)


def test_memory_that_is_too_small_for_one_record_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> Any:
        raise torch.OutOfMemoryError("a test")

    engine = engine_of(CASES["mlp"], "expanded", records(6))
    engine.prepare(classify, {})
    monkeypatch.setattr(ExpandedBackend, "per_record", never)
    with pytest.raises(torch.OutOfMemoryError):
        engine.clipped_sum(classify, {}, np.arange(6))


class Traced(CompiledBackend):
    """Compiled without a compiler, and wrong where the test says."""

    most, mixes_at, sums_are_wrong = 99, 0, False

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__(models, through="eager")
        if self.sums_are_wrong:
            self.sums = Longer()  # type: ignore[assignment]

    def per_record(self, loss: Loss, batch: Batch, multiplicity: int) -> Any:
        rows = len(batch) // multiplicity
        if rows > self.most:
            raise torch.OutOfMemoryError("a test")
        values, gradients = super().per_record(loss, batch, multiplicity)
        if rows == self.mixes_at:
            gradients = Pieces(tuple(piece.flip(0) for piece in gradients.values))
        return values, gradients


class Longer(PieceSums):
    def squares(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        return 0.25 * super().squares(values)


def test_a_shape_that_memory_asks_for_is_checked_before_records_meet_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another shape is compiled anew, and may go wrong where the first did not."""
    case = CASES["mlp"]
    monkeypatch.setattr(gradients_module, "CompiledBackend", Traced)
    monkeypatch.setattr(Traced, "mixes_at", 2)
    engine = engine_of(case, "compiled", records(13))
    engine.prepare(case.loss, {})
    monkeypatch.setattr(Traced, "most", 2)
    with pytest.raises(PrivacyError, match="each record's own"):
        engine.clipped_sum(case.loss, {}, np.arange(6))
    monkeypatch.setattr(Traced, "mixes_at", 0)
    assert engine.clipped_sum(case.loss, {}, np.arange(6)).units == 6


def test_compiled_sums_are_held_against_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["mlp"]
    monkeypatch.setattr(gradients_module, "CompiledBackend", Traced)
    engine_of(case, "compiled", records(6)).prepare(case.loss, {})
    monkeypatch.setattr(Traced, "sums_are_wrong", True)
    with pytest.raises(PrivacyError, match="are not those of their rows"):
        engine_of(case, "compiled", records(6)).prepare(case.loss, {})


def test_a_person_with_two_records_changes_no_digit_of_the_others_sum() -> None:
    """Whether somebody has two is private, so it may not choose the arithmetic."""
    case, names = CASES["critic"], [f"p{n:02}" for n in range(13)]
    more = records(15, units=[*names, "z", "z"])
    alone = more.select(np.arange(13))
    found = [
        engine_of(case, "expanded", data).clipped_sum(case.loss, {}, np.arange(13)).total
        for data in (alone, more)
    ]
    assert torch.equal(*found), "the others' sum moved"
