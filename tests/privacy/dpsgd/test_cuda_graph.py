"""Micro-batches that are replayed add what computed ones add, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.privacy.dpsgd.test_engine import CASES, Case, batches_of, made_engine, one_by_one
from tests.privacy.rig import classify, frozen, handle, mlp, records
from tests.privacy.sums.test_gradient_pieces import Unfused
from understudy.audit.observer import Observer
from understudy.audit.white_box import AuditSummation
from understudy.data.records import Records
from understudy.errors import PrivacyError
from understudy.nets.cuda_graph import capture_on
from understudy.nets.per_example import choice as choice_module
from understudy.nets.per_example.compiled import CompiledBackend
from understudy.nets.per_example.expanded import mean_values
from understudy.privacy.door.batch import Batch, make_batch
from understudy.privacy.dpsgd import engine as engine_module
from understudy.privacy.dpsgd.cuda_graph import GraphedWork, Part
from understudy.privacy.dpsgd.engine import GradientEngine
from understudy.privacy.dpsgd.loss import Loss, Models, Values
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State
from understudy.privacy.plan.mechanisms import DPSGD
from understudy.privacy.sums.clipping import Clipped, ClippedSum
from understudy.progress import Silent

CPU = torch.device("cpu")
CLIP = 0.5
TRIALS = 4 + 6
"""Replays before private records: of everybody, half of them, one and nobody; and of three places
before and after their record became another."""


class Written(CompiledBackend):
    """The compiled backend, run as it is written."""

    most = 99

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__(models, through="eager")
        self._values = mean_values

    def per_example(self, loss: Loss, batch: Batch, values: Values, multiplicity: int) -> Any:
        if len(batch) // multiplicity > self.most:
            raise torch.OutOfMemoryError("a test")
        return super().per_example(loss, batch, values, multiplicity)


class Tape(TorchDispatchMode):
    """What a CUDA graph does, on the CPU: the same operations on the same memory, with the numbers
    that they had."""

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


class Captures:
    """Captures on a tape, and counts how often it is played."""

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
def captures(monkeypatch: pytest.MonkeyPatch) -> Captures:
    found = Captures()
    use(monkeypatch, found)
    return found


def use(monkeypatch: pytest.MonkeyPatch, capture: Callable[..., Any]) -> None:
    """Let engines capture in this way."""
    monkeypatch.setattr(choice_module, "CompiledBackend", Written)
    monkeypatch.setattr(engine_module, "FusedSums", lambda _: Unfused())
    monkeypatch.setattr(engine_module, "capture_on", lambda _: capture)


def engine_of(case: Case, data: Records, **speed: Any) -> GradientEngine:
    mechanism = DPSGD("sgd", 10, rate=0.5, clip=CLIP, sigma=1.0, multiplicity=case.multiplicity)
    how = Speed(4 * case.multiplicity, "compiled", **{"cuda_graph": True, **speed})
    return made_engine(case, mechanism, how, data)


def require_right_sum(case: Case, engine: GradientEngine, people: int) -> None:
    """As a loop over records gives it, of the draws that the engine has made."""
    if engine._backend is None:
        engine.run_trials({})
    seen = batches_of(engine)
    found = engine.clipped_sum(np.arange(people), {})
    wanted = one_by_one(case, engine, seen, list(range(people)))
    assert found.units == people
    off = float((found.total - wanted).norm() / wanted.norm())
    assert off <= 1e-5, "not the sum of these records"


@pytest.mark.parametrize("name", ["critic", "multiplicity", "noises in pairs", "two models"])
def test_replayed_sums_are_those_of_a_loop_over_records(name: str, captures: Captures) -> None:
    """Of whole micro-batches, of padded ones, and with weights that moved since."""
    case = CASES[name]
    engine = engine_of(case, records(13))
    engine.run_trials({})
    for people in (13, 8, 1):
        require_right_sum(case, engine, people)
        with torch.no_grad():
            for parameter in engine.bound.parameters:
                parameter.mul_(1.3)
    assert captures.replays == TRIALS + 4 + 2 + 1
    assert not engine.notice


def test_losses_and_counts_are_those_of_computed_steps(captures: Captures) -> None:
    case = CASES["critic"]
    found = []
    for graphed in (True, False):
        engine = engine_of(case, records(13), cuda_graph=graphed)
        result = engine.clipped_sum(np.arange(11), {})
        found.append((int(result.clipped), result.units, float(result.mean_loss)))
    assert found[0] == pytest.approx(found[1])
    assert captures.replays == TRIALS + 3


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_one_record_moves_a_replayed_step_no_further_than_the_clip(
    precision: str, captures: Captures
) -> None:
    case = CASES["critic"]
    engine = engine_of(case, records(13), precision=precision)
    everybody = np.arange(9)
    whole = engine.clipped_sum(everybody, {}).total
    for left_out in everybody:
        others = engine.clipped_sum(np.delete(everybody, left_out), {}).total
        moved = float((whole - others).norm())
        assert moved <= CLIP, f"moved too far: {moved / CLIP:g} clips"
    assert captures.replays >= TRIALS + 9


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_record_that_is_not_finite_harms_only_itself(poison: float, captures: Captures) -> None:
    data = records(6)
    features = data.features.astype(np.float32).reshape(6, 16) / 255.0
    features[2] = poison
    engine = engine_of(CASES["mlp"], Records(features, data.attributes, data.schema))
    others = engine.clipped_sum(np.array([0, 1, 3, 4, 5]), {}).total
    with_it = engine.clipped_sum(np.arange(6), {}).total
    assert torch.isfinite(with_it).all()
    torch.testing.assert_close(with_it, others, rtol=0, atol=1e-6)
    assert captures.replays == TRIALS + 2 + 2


@pytest.mark.parametrize("kind", ["does nothing", "forgets the weights", "cannot"])
def test_a_graph_that_does_not_give_the_same_is_not_used(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES["critic"]
    engine = engine_of(case, records(13))

    def bad(work: Callable[[], None]) -> Callable[[], None]:
        work()
        if kind == "cannot":
            raise RuntimeError("operation not permitted\n  when stream is capturing")
        weights = nn.ParameterList(engine.bound.parameters)
        kept = copy.deepcopy(weights.state_dict())

        def replay() -> None:
            now = copy.deepcopy(weights.state_dict())
            weights.load_state_dict(kept)
            work()
            weights.load_state_dict(now)

        return (lambda: None) if kind == "does nothing" else replay

    use(monkeypatch, bad)
    require_right_sum(case, engine, 11)
    why = "not permitted when stream" if kind == "cannot" else "replayed sums are off by"
    assert why in engine.notice


def test_that_there_is_no_graph_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_: Callable[[], None]) -> Callable[[], None]:
        raise RuntimeError("no graphs here")

    use(monkeypatch, cannot)
    planned = DPSGD("sgd", 10, rate=0.5, clip=CLIP, sigma=1.0)
    private, said = handle(tmp_path, records(13), planned), list[str]()
    speed = Speed(4, "compiled", block_steps=1, cuda_graph=True)
    session = private.dp_sgd(private._door.plan, [mlp()], classify, speed=speed)
    monkeypatch.setattr(Silent, "say", lambda _, line: said.append(line))
    for _ in range(3):
        session.step()
        session._door.checkpoint(State)
    assert said == ["private steps run without a CUDA graph, so they are slower: no graphs here"]


@pytest.mark.parametrize("kind", ["nobody", "the first twice", "not the first"])
def test_work_that_counts_others_than_are_used_is_not_captured(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is replayed is held against the clipped sum itself, not against its like."""
    engine = engine_of(CASES["critic"], records(13))
    right = engine._work

    def wrong(batch: Batch, values: Values, used: torch.Tensor) -> Part:
        first = torch.arange(4) < 1
        if kind == "nobody":
            return right(batch, values, used if used.any() else ~used)
        if kind == "not the first":
            return right(batch, values, used & ~first)
        part, more = right(batch, values, used), right(batch, values, used & first).clipped.total
        return part._replace(clipped=replace(part.clipped, total=part.clipped.total + more))

    use(monkeypatch, rerun)
    monkeypatch.setattr(engine, "_work", wrong)
    engine.run_trials({})
    assert ("not used" if kind == "nobody" else "replayed sums are off by") in engine.notice
    assert engine._graph is None


def rerun(work: Callable[[], None]) -> Callable[[], None]:
    return work


@dataclass(frozen=True)
class Weighted:
    """A loss with a tensor of its own, and a value that changes from step to step."""

    table: torch.Tensor

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        return values["weight"] * self.table[0] * classify(models, batch, values)


def test_values_of_a_step_reach_a_replay(captures: Captures) -> None:
    case = Case(CASES["mlp"].models, Weighted(torch.tensor([1e-4])))
    engine = engine_of(case, records(13))
    found = [
        engine.clipped_sum(np.arange(6), {"weight": torch.tensor(weight)}).total
        for weight in (1.0, 3.0)
    ]
    assert captures.replays == TRIALS + 2 + 2
    torch.testing.assert_close(3 * found[0], found[1])


@pytest.mark.usefixtures("captures")
@pytest.mark.parametrize("share", [0.0, 1e-5])
def test_a_replay_in_which_records_mix_is_refused(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By far less than a trial's tolerance. A replay writes where the one before it wrote, so what
    the others add must be taken from there before the next."""
    right = GraphedWork.__call__

    def mixing(self: GraphedWork, batch: Batch, values: Values, used: torch.Tensor) -> Part:
        part = right(self, batch, values, used)
        part.clipped.total[0] += share * batch.features.double().mean() * used.any()
        return part

    monkeypatch.setattr(GraphedWork, "__call__", mixing)
    engine = engine_of(CASES["critic"], records(13))
    if share:
        with pytest.raises(PrivacyError, match="moves what the others add"):
            engine.run_trials({})
    else:
        engine.run_trials({})
    assert engine._graph is not None


@pytest.mark.usefixtures("captures")
def test_a_tensor_of_the_loss_is_held() -> None:
    loss = Weighted(torch.tensor([1.0]))
    engine = engine_of(Case(CASES["mlp"].models, loss), records(13))
    engine.run_trials({"weight": torch.tensor(1.0)})
    assert engine._graph is not None
    assert loss.table.data_ptr() in {tensor.data_ptr() for tensor in engine._graph._held}


def test_audits_capture_nothing(tmp_path: Path, captures: Captures) -> None:
    """There canaries are added to what everybody else adds, and both must go one way."""
    planned = DPSGD("sgd", 10, rate=0.5, clip=CLIP, sigma=1.0)
    private = handle(tmp_path, records(13), planned)
    private._summation = AuditSummation(Observer(1, 0), np.array([], np.int64), CPU)
    how = Speed(4, "compiled", cuda_graph=True)
    case = CASES["critic"]
    session = private.dp_sgd(private._door.plan, case.models(), case.loss, speed=how)
    session.step()
    assert captures.replays == 0


def test_tensors_that_lie_elsewhere_end_the_replays(captures: Captures) -> None:
    case = Case(lambda: [Faded()], CASES["mlp"].loss)
    engine = engine_of(case, records(13))
    engine.run_trials({})
    engine.bound.parameters[0].data = 2 * engine.bound.parameters[0].data
    require_right_sum(case, engine, 6)
    assert captures.replays == TRIALS
    assert engine._graph is None
    assert "has moved" in engine.notice


def test_tensors_are_read_with_the_values_that_they_have(captures: Captures) -> None:
    case = Case(lambda: [Faded()], CASES["mlp"].loss)
    engine = engine_of(case, records(13))
    engine.run_trials({})
    model: Any = engine.bound.models[0]
    model.offset.fill_(2.0)
    with torch.no_grad():
        engine.bound.parameters[0].mul_(1.5)
    require_right_sum(case, engine, 6)
    assert captures.replays == TRIALS + 2


def test_what_a_graph_reads_is_not_freed(captures: Captures) -> None:
    """Somebody's records could come to lie there."""
    case = Case(lambda: [Faded()], CASES["mlp"].loss)
    engine = engine_of(case, records(13))
    engine.run_trials({})
    assert captures.replays == TRIALS
    assert engine._graph is not None
    held = {tensor.data_ptr() for tensor in engine._graph._held}
    model: Any = engine.bound.models[0]
    read = [*model.parameters(), *model.buffers()]
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


def test_a_loss_that_reads_what_nobody_holds_is_computed(
    captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that is no model of the session may be moved or freed."""
    monkeypatch.setattr(torch, "somebodys", mlp(1), raising=False)

    @frozen
    def loss(models: Models, batch: Batch) -> torch.Tensor:
        said: torch.Tensor = models[0](batch.features)
        other: Any = torch.somebodys  # type: ignore[attr-defined]
        return (said - other(batch.features).detach()).square().sum(dim=1)

    case = Case(CASES["mlp"].models, loss)
    engine = engine_of(case, records(13))
    require_right_sum(case, engine, 6)
    assert "neither a model's nor its rows'" in engine.notice
    assert captures.replays == 0


def test_a_model_with_a_buffer_elsewhere_is_computed(captures: Captures) -> None:
    """A graph would keep its value."""
    model: Any = Faded()
    model.register_buffer("elsewhere", torch.zeros((), device="meta"))
    case = Case(lambda: [model], CASES["mlp"].loss)
    engine = engine_of(case, records(13))
    example = engine._subject.random_rows(4)
    with pytest.raises(RuntimeError, match="on another device"):
        GraphedWork(captures, engine._work, example, {}, 4, engine._tensors_read)
    assert captures.replays == 0


def test_micro_batches_of_two_are_not_captured(captures: Captures) -> None:
    case = CASES["mlp"]
    engine = engine_of(case, records(13))
    engine._rows = 2
    require_right_sum(case, engine, 5)
    assert captures.replays == 0


def test_a_micro_batch_of_another_form_is_refused(captures: Captures) -> None:
    case = CASES["multiplicity"]
    engine = engine_of(case, records(13))
    engine.run_trials({})
    assert engine._graph is not None
    assert engine._graph.replays == captures.replays == TRIALS
    batch = engine._subject.draw(make_batch(records(13), np.arange(4), CPU), case.multiplicity)
    wrong = [replace(batch, features=batch.features[..., :1]), replace(batch, draws={})]
    for one in wrong:
        with pytest.raises(PrivacyError, match="another shape or type"):
            engine._graph(one, {}, torch.ones(4, dtype=torch.bool))
    with pytest.raises(PrivacyError, match="another shape or type"):
        engine._graph(batch, {}, torch.ones(1, dtype=torch.bool))


def test_people_with_several_records_are_not_captured(captures: Captures) -> None:
    case = CASES["units"]
    engine = engine_of(case, records(13, units=case.units))
    engine.clipped_sum(np.arange(3), {})
    assert captures.replays == 0


def test_memory_that_runs_out_in_a_step_is_captured_anew(
    captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph is for one size of micro-batches."""
    case, everybody = CASES["critic"], np.arange(9)
    wanted = engine_of(case, records(13), cuda_graph=False).clipped_sum(everybody, {})
    engine = engine_of(case, records(13))
    engine._rows = 8
    engine.run_trials({})
    monkeypatch.setattr(Written, "most", 4)
    engine._graph = None  # so that memory runs out while a micro-batch is computed
    found = engine.clipped_sum(everybody, {})
    torch.testing.assert_close(found.total, wanted.total)
    assert engine._rows == 4
    assert captures.replays == TRIALS + TRIALS + 3


def test_memory_that_runs_out_while_capturing_changes_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Smaller micro-batches would be compiled anew, and meet records without a check."""

    def too_large(_: Callable[[], None]) -> Callable[[], None]:
        raise torch.OutOfMemoryError("out of memory")

    use(monkeypatch, too_large)
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


def test_nothing_is_captured_on_a_cpu() -> None:
    assert capture_on(CPU) is None
