"""Micro-batches that are replayed add what computed ones add, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.privacy.dpsgd.test_engine import CASES, Case, critic_loss, one_by_one
from tests.privacy.dpsgd.test_engine import recording as batches_of
from tests.privacy.rig import classify, handle, mlp, records
from tests.privacy.sums.test_gradient_pieces import Unfused
from understudy.audit.observer import Observer
from understudy.audit.white_box import _CanaryEngine
from understudy.data.records import Records
from understudy.errors import PrivacyError
from understudy.privacy.door.batch import Batch, make_batch
from understudy.privacy.dpsgd import engine as gradients_module
from understudy.privacy.dpsgd.backends.base import Loss
from understudy.privacy.dpsgd.backends.compiled import CompiledBackend
from understudy.privacy.dpsgd.backends.expanded import mean_values
from understudy.privacy.dpsgd.capture import recorder_for
from understudy.privacy.dpsgd.cuda_graph import Part
from understudy.privacy.dpsgd.engine import GradientEngine
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.clipping import Clipped, ClippedSum
from understudy.privacy.sums.units import UnitIndex
from understudy.progress import Silent

CPU = torch.device("cpu")
CLIP = 0.5
TRIALS = 4
"""Replays before private records: of everybody, half of them, one and nobody."""


class Written(CompiledBackend):
    """The compiled backend, run as it is written."""

    most = 99

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__(models, through="eager")
        self._values, self.sums = mean_values, Unfused()

    def per_record(self, loss: Loss, batch: Batch, multiplicity: int) -> Any:
        if len(batch) // multiplicity > self.most:
            raise torch.OutOfMemoryError("a test")
        return super().per_record(loss, batch, multiplicity)


class Tape(TorchDispatchMode):
    """What a GPU's recording does, on the CPU: the same operations on the same memory, with the
    numbers that they had."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self._calls.append((func, *(_memory(part) for part in (args, kwargs or {}, found))))
        return found

    def play(self) -> None:
        for func, args, kwargs, found in self._calls:
            again = func(*args, **kwargs)
            for new, old in zip(tree_leaves(again), tree_leaves(found), strict=True):
                if isinstance(new, torch.Tensor) and new.data_ptr() != old.data_ptr():
                    old.copy_(new)


def _memory(values: Any) -> Any:
    """Tensors by where they lie now, wherever they are told to lie later."""
    return tree_map_only(torch.Tensor, torch.Tensor.detach, values)


class Recording:
    """Records on a tape, and counts how often it is played."""

    def __init__(self) -> None:
        self.replays = 0

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        with Tape() as tape:
            work()

        def replay() -> None:
            self.replays += 1
            with torch.no_grad():
                tape.play()

        return replay


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Recording:
    found = Recording()
    monkeypatch.setattr(gradients_module, "CompiledBackend", Written)
    monkeypatch.setattr(gradients_module, "recorder_for", lambda _: found)
    return found


def engine_of(case: Case, data: Records, **speed: Any) -> GradientEngine:
    mechanism = DPSGD("sgd", 10, rate=0.5, clip=CLIP, sigma=1.0, multiplicity=case.multiplicity)
    how = Speed(4 * case.multiplicity, "compiled", **{"recorded": True, **speed})
    return GradientEngine(
        case.models(), mechanism, how, data, UnitIndex(data), NoiseSource(), expected=6.0
    )


def require_right_sum(case: Case, engine: GradientEngine, people: int) -> None:
    """As a loop over records gives it, of the draws that the engine has made."""
    engine.prepare(case.loss, case.draws)
    seen = batches_of(engine)
    found = engine.clipped_sum(case.loss, case.draws, np.arange(people))
    wanted = one_by_one(case, engine, seen, list(range(people)))
    assert found.units == people
    off = float((found.total - wanted).norm() / wanted.norm())
    assert off <= 1e-5, "not the sum of these records"


@pytest.mark.parametrize("name", ["critic", "multiplicity", "noises in pairs", "two models"])
def test_replayed_sums_are_those_of_a_loop_over_records(name: str, recording: Recording) -> None:
    """Of whole micro-batches, of padded ones, and with weights that moved since."""
    case = CASES[name]
    engine = engine_of(case, records(13))
    engine.prepare(case.loss, case.draws)
    for people in (13, 8, 1):
        require_right_sum(case, engine, people)
        with torch.no_grad():
            for parameter in engine.parameters:
                parameter.mul_(1.3)
    assert recording.replays == TRIALS + 4 + 2 + 1
    assert not engine.notice


def test_losses_and_counts_are_those_of_computed_steps(recording: Recording) -> None:
    case = CASES["critic"]
    found = []
    for recorded in (True, False):
        engine = engine_of(case, records(13), recorded=recorded)
        result = engine.clipped_sum(case.loss, case.draws, np.arange(11))
        found.append((int(result.clipped), result.units, float(result.mean_loss)))
    assert found[0] == pytest.approx(found[1])
    assert recording.replays == TRIALS + 3


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_one_record_moves_a_replayed_step_no_further_than_the_clip(
    precision: str, recording: Recording
) -> None:
    case = CASES["critic"]
    engine = engine_of(case, records(13), precision=precision)
    everybody = np.arange(9)
    whole = engine.clipped_sum(case.loss, {}, everybody).total
    for left_out in everybody:
        others = engine.clipped_sum(case.loss, {}, np.delete(everybody, left_out)).total
        moved = float((whole - others).norm())
        assert moved <= CLIP * (1 + 1e-6), f"moved too far: {moved / CLIP:g} clips"
    assert recording.replays >= TRIALS + 9


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_record_that_is_not_finite_harms_only_itself(poison: float, recording: Recording) -> None:
    data = records(6)
    features = data.features.astype(np.float32).reshape(6, 16) / 255.0
    features[2] = poison
    engine = engine_of(CASES["mlp"], Records(features, data.attributes, data.schema))
    others = engine.clipped_sum(classify, {}, np.array([0, 1, 3, 4, 5])).total
    with_it = engine.clipped_sum(classify, {}, np.arange(6)).total
    assert torch.isfinite(with_it).all()
    torch.testing.assert_close(with_it, others, rtol=0, atol=1e-6)
    assert recording.replays == TRIALS + 2 + 2


@pytest.mark.parametrize("kind", ["does nothing", "forgets the weights", "cannot"])
def test_a_recording_that_does_not_give_the_same_is_not_used(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES["critic"]
    engine = engine_of(case, records(13))

    def bad(work: Callable[[], None]) -> Callable[[], None]:
        work()
        if kind == "cannot":
            raise RuntimeError("operation not permitted\n  when stream is capturing")
        weights = nn.ParameterList(engine.parameters)
        kept = copy.deepcopy(weights.state_dict())

        def replay() -> None:
            now = copy.deepcopy(weights.state_dict())
            weights.load_state_dict(kept)
            work()
            weights.load_state_dict(now)

        return (lambda: None) if kind == "does nothing" else replay

    monkeypatch.setattr(gradients_module, "CompiledBackend", Written)
    monkeypatch.setattr(gradients_module, "recorder_for", lambda _: bad)
    require_right_sum(case, engine, 11)
    why = "not permitted when stream" if kind == "cannot" else "replayed sums are off by"
    assert why in engine.notice


def test_that_nothing_is_recorded_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_: Callable[[], None]) -> Callable[[], None]:
        raise RuntimeError("no graphs here")

    monkeypatch.setattr(gradients_module, "CompiledBackend", Written)
    monkeypatch.setattr(gradients_module, "recorder_for", lambda _: cannot)
    planned = DPSGD("sgd", 10, rate=0.5, clip=CLIP, sigma=1.0)
    private, said = handle(tmp_path, records(13), planned), list[str]()
    session = private.dp_sgd(private._door.plan, Speed(4, "compiled", recorded=True))
    monkeypatch.setattr(Silent, "say", lambda _, line: said.append(line))
    model = mlp()
    for loss in (classify, lambda models, batch: 2 * classify(models, batch)):
        session.step([model], loss)
        session._door.checkpoint(State)
    assert said == ["private steps are not recorded, so they are slower: no graphs here"]


@pytest.mark.parametrize("kind", ["nobody", "the first twice", "not the first"])
def test_work_that_counts_others_than_are_used_is_not_recorded(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is replayed is held against the clipped sum itself, not against its like."""
    case, engine = CASES["critic"], engine_of(CASES["critic"], records(13))
    right = engine._part

    def wrong(loss: Loss, batch: Batch, used: torch.Tensor) -> Part:
        first = torch.arange(4) < 1
        if kind == "nobody":
            return right(loss, batch, used if used.any() else ~used)
        if kind == "not the first":
            return right(loss, batch, used & ~first)
        part, more = right(loss, batch, used), right(loss, batch, used & first).clipped.total
        return part._replace(clipped=replace(part.clipped, total=part.clipped.total + more))

    monkeypatch.setattr(gradients_module, "CompiledBackend", Written)
    monkeypatch.setattr(gradients_module, "recorder_for", lambda _: rerun)
    monkeypatch.setattr(engine, "_part", wrong)
    engine.prepare(case.loss, {})
    assert ("not used" if kind == "nobody" else "replayed sums are off by") in engine.notice
    assert engine._recorded is None


def rerun(work: Callable[[], None]) -> Callable[[], None]:
    return work


def doubled(models: Any, batch: Batch) -> torch.Tensor:
    return 2 * critic_loss(models, batch)


def test_another_loss_is_recorded_in_its_turn(recording: Recording) -> None:
    """The first is then computed: a recording is of one loss."""
    case = CASES["critic"]
    engine = engine_of(case, records(13))
    engine.prepare(case.loss, {})
    require_right_sum(Case(case.models, doubled), engine, 6)
    assert recording.replays == TRIALS + TRIALS + 2
    require_right_sum(case, engine, 6)
    assert recording.replays == TRIALS + TRIALS + 2
    assert "no longer as they were" in engine.notice
    assert engine._recorded is None


def test_other_draws_are_computed(recording: Recording) -> None:
    def loss(models: Any, batch: Batch) -> torch.Tensor:
        noise = sum(batch.draws.values())
        return models[0](batch.features + noise).square().sum(dim=1)  # type: ignore[no-any-return]

    case = Case(CASES["mlp"].models, loss, {"noise": (1, 4, 4)})
    engine = engine_of(case, records(13))
    engine.prepare(loss, case.draws)
    require_right_sum(replace(case, draws={"noise": (1, 1, 1)}), engine, 6)
    assert recording.replays == TRIALS


@pytest.mark.parametrize(("before", "after", "anew"), [(1, 3, TRIALS + 2), (0.5, 0.01, 0)])
def test_a_value_of_the_loss_that_changes_is_seen(
    before: float, after: float, anew: int, recording: Recording
) -> None:
    """With another option it is checked and recorded anew; another weight is computed."""
    weight = before

    def loss(models: Any, batch: Batch) -> torch.Tensor:
        return weight * classify(models, batch)

    case = Case(CASES["mlp"].models, loss)
    engine = engine_of(case, records(13))
    require_right_sum(case, engine, 6)
    weight = after
    require_right_sum(case, engine, 6)
    assert recording.replays == TRIALS + 2 + anew


def test_audits_record_nothing(recording: Recording) -> None:
    """There canaries are added to what everybody else adds, and both must go one way."""
    case, data = CASES["critic"], records(13)
    planned = DPSGD("sgd", 10, rate=0.5, clip=CLIP, sigma=1.0)
    how = Speed(4, "compiled", recorded=True)
    engine = _CanaryEngine(
        case.models(), planned, how, data, UnitIndex(data), NoiseSource(), expected=6.0
    )
    engine.watched_by(Observer(1, 0), np.full(13, -1))
    engine.prepare(case.loss, {})
    assert recording.replays == 0


@pytest.mark.parametrize(
    "kind", ["elsewhere", "a knob", "one of several", "a buffer", "longer", "a tensor"]
)
def test_models_that_are_no_longer_as_they_were_are_computed(
    kind: str, recording: Recording
) -> None:
    case = Case(lambda: [Faded()], CASES["mlp"].loss)
    engine = engine_of(case, records(13))
    engine.prepare(case.loss, {})
    model: Any = engine.models[0]
    if kind == "elsewhere":
        engine.parameters[0].data = 2 * engine.parameters[0].data
    elif kind == "a knob":
        model.fade = 0.25
    elif kind == "one of several":
        model.scaling["default"] = 2.0
    elif kind == "a buffer":
        model.offset = torch.tensor(1.0)
    elif kind == "longer":
        model.table = model.values[:8]
    else:
        model.values = torch.ones(8)
    require_right_sum(case, engine, 6)
    assert recording.replays == TRIALS
    assert engine._recorded is None
    assert "no longer as they were" in engine.notice


def test_a_mode_that_changes_is_checked_and_recorded_anew(recording: Recording) -> None:
    case = Case(lambda: [Faded()], CASES["mlp"].loss)
    engine = engine_of(case, records(13))
    engine.prepare(case.loss, {})
    engine.models[0].eval()
    require_right_sum(case, engine, 6)
    assert recording.replays == 2 * TRIALS + 2


def test_tensors_are_read_with_the_values_that_they_have(recording: Recording) -> None:
    case = Case(lambda: [Faded()], CASES["mlp"].loss)
    engine = engine_of(case, records(13))
    engine.prepare(case.loss, {})
    model: Any = engine.models[0]
    model.offset.fill_(2.0)
    model.values.fill_(3.0)
    require_right_sum(case, engine, 6)
    assert recording.replays == TRIALS + 2


def test_what_a_recording_reads_is_not_freed(recording: Recording) -> None:
    """Somebody's records could come to lie there."""
    case = Case(lambda: [Faded()], CASES["mlp"].loss)
    engine = engine_of(case, records(13))
    engine.prepare(case.loss, {})
    assert recording.replays == TRIALS
    assert engine._recorded is not None
    held = {tensor.data_ptr() for tensor in engine._recorded._held}
    model: Any = engine.models[0]
    read = [*model.parameters(), *model.buffers(), model.values]
    assert {tensor.data_ptr() for tensor in read} <= held


class Faded(nn.Module):
    """A network with what is neither a parameter nor fixed."""

    offset: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.fade, self.values = mlp(), 0.5, torch.arange(8.0)
        self.scaling = {"default": 1.0}
        self.register_buffer("offset", torch.tensor(0.5))
        self.register_buffer("table", self.values[:2])

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        further = self.table.mean() + self.values[0] + (0.1 if self.training else 0.2)
        scale = self.fade * self.scaling["default"]
        said: torch.Tensor = scale * self.inner(rows - self.offset - further)
        return said


@pytest.mark.parametrize("through", ["itself", "a function"])
def test_a_loss_that_holds_what_may_change_is_computed(through: str, recording: Recording) -> None:
    """Nor where it lies is held: somebody's records could come to lie there."""
    network = mlp(1)
    other = network if through == "itself" else lambda rows: network(rows)

    def loss(models: Any, batch: Batch) -> torch.Tensor:
        said: torch.Tensor = models[0](batch.features) - other(batch.features).detach()
        return said.square().sum(dim=1)

    case = Case(CASES["mlp"].models, loss)
    engine = engine_of(case, records(13))
    require_right_sum(case, engine, 6)
    for parameter in network.parameters():
        parameter.data = parameter.data + 1
    require_right_sum(case, engine, 6)
    assert "holds what may change" in engine.notice
    assert recording.replays == 0


def test_a_loss_that_reads_what_nobody_holds_is_computed(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it comes by it; torch itself is not looked into."""
    monkeypatch.setattr(torch, "somebodys", mlp(1), raising=False)

    def loss(models: Any, batch: Batch) -> torch.Tensor:
        said: torch.Tensor = models[0](batch.features)
        other: Any = torch.somebodys  # type: ignore[attr-defined]
        return (said - other(batch.features).detach()).square().sum(dim=1)

    case = Case(CASES["mlp"].models, loss)
    engine = engine_of(case, records(13))
    require_right_sum(case, engine, 6)
    assert "neither a model's nor its rows'" in engine.notice
    assert recording.replays == 0


def test_a_model_with_a_tensor_elsewhere_is_computed(recording: Recording) -> None:
    """A recording would keep its value."""
    model: Any = Faded()
    model.elsewhere = torch.zeros((), device="meta")
    case = Case(lambda: [model], CASES["mlp"].loss)
    engine = engine_of(case, records(13))
    engine.prepare(case.loss, {})
    assert "on another device" in engine.notice
    assert recording.replays == 0


def test_micro_batches_of_two_are_not_recorded(recording: Recording) -> None:
    case = CASES["mlp"]
    engine = engine_of(case, records(13))
    engine._rows = 2
    require_right_sum(case, engine, 5)
    assert recording.replays == 0


def test_a_micro_batch_of_another_form_is_refused(recording: Recording) -> None:
    case = CASES["multiplicity"]
    engine = engine_of(case, records(13))
    engine.prepare(case.loss, case.draws)
    assert engine._recorded is not None
    assert engine._recorded.replays == recording.replays == TRIALS
    batch = engine._dress(make_batch(records(13), np.arange(4), CPU), case.draws)
    wrong = [replace(batch, features=batch.features[..., :1]), replace(batch, draws={})]
    for one in wrong:
        with pytest.raises(PrivacyError, match="another form"):
            engine._recorded(one, torch.ones(4, dtype=torch.bool))
    with pytest.raises(PrivacyError, match="another form"):
        engine._recorded(batch, torch.ones(1, dtype=torch.bool))


def test_people_with_several_records_are_not_recorded(recording: Recording) -> None:
    case = CASES["units"]
    engine = engine_of(case, records(13, units=case.units))
    engine.clipped_sum(case.loss, {}, np.arange(3))
    assert recording.replays == 0


def test_memory_that_runs_out_in_a_step_is_recorded_anew(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording is for one size of micro-batches."""
    case, everybody = CASES["critic"], np.arange(9)
    wanted = engine_of(case, records(13), recorded=False).clipped_sum(case.loss, {}, everybody)
    engine = engine_of(case, records(13))
    engine._rows = 8
    engine.prepare(case.loss, {})
    monkeypatch.setattr(Written, "most", 4)
    engine._recorded = None  # so that memory runs out while a micro-batch is computed
    found = engine.clipped_sum(case.loss, {}, everybody)
    torch.testing.assert_close(found.total, wanted.total)
    assert engine._rows == 4
    assert recording.replays == TRIALS + TRIALS + 3


def test_memory_that_runs_out_while_recording_changes_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Smaller micro-batches would be compiled anew, and meet records without a check."""

    def too_large(_: Callable[[], None]) -> Callable[[], None]:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(gradients_module, "CompiledBackend", Written)
    monkeypatch.setattr(gradients_module, "recorder_for", lambda _: too_large)
    case = CASES["critic"]
    engine = engine_of(case, records(13))
    require_right_sum(case, engine, 9)
    assert engine._rows == 4
    assert "out of memory" in engine.notice


def test_a_sum_takes_only_chunks_of_its_own_clip() -> None:
    chunk = Clipped(torch.ones(3, dtype=torch.float64), torch.ones(2, dtype=torch.float64), 2.0)
    for clip, single in ((1.0, True), (2.0, False)):
        with pytest.raises(PrivacyError, match="cannot be added"):
            ClippedSum(clip, 3, CPU, single).add_clipped(chunk, 2)
    for width, real in ((4, 2), (3, 3)):
        with pytest.raises(PrivacyError, match="expected the sum of"):
            ClippedSum(2.0, width, CPU, single=True).add_clipped(chunk, real)
    total = ClippedSum(2.0, 3, CPU, single=True)
    total.add_clipped(chunk, 1)
    assert (total.units, int(total.clipped)) == (1, 0)
    assert total.finish().tolist() == [1.0, 1.0, 1.0]


def test_nothing_is_recorded_on_a_cpu() -> None:
    assert recorder_for(CPU) is None
