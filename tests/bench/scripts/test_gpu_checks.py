"""The checks that a GPU is put to, tried on the CPU: they see what they should."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.privacy.dpsgd.test_cuda_graph import Captures, Written, use
from tests.scripts import load_script, run_bare
from understudy.nets.per_example import choice as choice_module
from understudy.privacy.dpsgd.cuda_graph import GraphedWork, GraphTrial
from understudy.privacy.dpsgd.trials import Subject, Trial
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.sums.gradient_pieces import Pieces

script = load_script("gpu_checks")


def test_they_run_where_only_torch_is_and_become_evidence(tmp_path: Path) -> None:
    words = ["--out", "found", "--device", "cpu", "--network", "tiny", "--draws", "2"]
    words += ["--records", "3", "--public-rows", "4", "--timed", "2"]
    run_bare("gpu_checks", *words, cwd=tmp_path)
    found = json.loads((tmp_path / "found" / "gpu_checks.json").read_text())
    assert found["kept"]
    assert found["engine"]["float32"]["worst_relative_error"] < 1e-5
    assert max(found["engine"]["bfloat16"]["others_moved"].values()) <= 1e-6
    assert 1e-5 < found["engine"]["bfloat16"]["worst_relative_error"] < 5e-2
    script._evidence(tmp_path / "found", tmp_path / "store")
    kept = json.loads((tmp_path / "store" / "gpu-checks.json").read_text())
    assert kept["result"]["stream"]["equal"]
    assert kept["command"].endswith("--out FOLDER")
    found["recording"]["milliseconds"] = {}
    (tmp_path / "found" / "gpu_checks.json").write_text(json.dumps(found))
    script._evidence(tmp_path / "found", tmp_path / "untimed")
    kept = json.loads((tmp_path / "untimed" / "gpu-checks.json").read_text())
    assert kept["command"].endswith("--timed 0")


def test_the_distribution_is_judged_both_ways() -> None:
    drawn = NoiseSource().normal(100_000, "cpu", torch.float64).numpy()
    assert script.normal_p_value(drawn) > 1e-9
    assert script.normal_p_value(1.1 * drawn) < 1e-9
    assert script.normal_p_value(drawn + 0.1) < 1e-9
    assert script.normal_p_value(np.sort(drawn)) == script.normal_p_value(drawn)


def test_a_stream_that_differs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check compares bits, not distributions."""
    assert script.check_stream(torch.device("cpu"))["equal"]
    seeds = iter((0, 1))
    secret = NoiseSource.insecure
    monkeypatch.setattr(script.NoiseSource, "insecure", staticmethod(lambda _: secret(next(seeds))))
    found = script.check_stream(torch.device("cpu"))
    assert not found["equal"]
    assert found["each"]["words"]


def test_a_replay_of_old_inputs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(work: Callable[[], None]) -> Callable[[], None]:
        work()
        return lambda: None

    asked = argparse.Namespace(network="tiny", public_rows=4, timed=1)
    cpu = torch.device("cpu")
    assert script.check_replay(cpu, asked)["worst_relative_error"] < 1e-3
    monkeypatch.setattr(script, "capture_on", lambda _: stale)
    # The product compares once, when it records; the check must see what goes wrong later.
    monkeypatch.setattr(script.Gradients, "_compare", lambda *_: None)
    found = script.check_replay(cpu, asked)
    assert found["recorded"]
    assert found["worst_relative_error"] > script.PROMISED["recording"]


def test_nothing_is_timed_beside_other_work() -> None:
    asked = argparse.Namespace(network="tiny", public_rows=4, timed=0)
    assert script.check_replay(torch.device("cpu"), asked)["milliseconds"] == {}
    timed = script.check_replay(
        torch.device("cpu"), argparse.Namespace(**vars(asked) | {"timed": 1})
    )
    assert set(timed["milliseconds"]) == {"computed", "replayed"}


@pytest.mark.parametrize("kind", ["places", "company"])
def test_rounding_that_a_neighbour_changes_is_seen(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record's gradient is right to 1e-4, and yet the others' sum moves."""
    right = Subject.per_example

    def rounded(self: Subject, *words: Any) -> tuple[torch.Tensor, Any]:
        values, found = right(self, *words)
        where = torch.arange(len(found)) if kind == "places" else 1e6 * found.values[0].sum()

        def off(piece: torch.Tensor) -> torch.Tensor:
            phase = torch.arange(piece[0].numel()).reshape(piece.shape[1:])
            return piece * (1 + 1e-4 * torch.sin(where.reshape(-1, *[1] * phase.ndim) + phase))

        return values, Pieces(tuple(off(piece) for piece in found.values))

    asked = argparse.Namespace(network="tiny", draws=2, records=6, computed=True)
    cpu = torch.device("cpu")
    assert max(script.check_engine("float32", cpu, asked)["others_moved"].values()) <= 1e-6
    monkeypatch.setattr(Subject, "per_example", rounded)
    # The product refuses what company changes; the check must see it by itself.
    monkeypatch.setattr(Trial, "check_others_unmoved", lambda *_: None)
    assert script.check_engine("float32", cpu, asked)["others_moved"][kind] > 1e-6


@pytest.mark.parametrize("wrong", [False, True])
def test_a_replay_is_asked_what_one_record_moves(
    wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay that is right of everybody, and yet adds a record more where it is not used."""
    use(monkeypatch, Captures())
    monkeypatch.setattr(choice_module, "_makers", lambda *_: [Written])
    if wrong:
        right = GraphedWork.__call__

        def one_more(self: GraphedWork, batch: Any, values: Any, used: torch.Tensor) -> Any:
            return right(self, batch, values, used.roll(1) | used if used.any() else used)

        monkeypatch.setattr(GraphTrial, "require", lambda *_: None)
        monkeypatch.setattr(Trial, "check_others_unmoved", lambda *_: None)
        monkeypatch.setattr(GraphedWork, "__call__", one_more)
    asked = argparse.Namespace(network="tiny", draws=2, records=6, computed=False)
    found = script.check_engine("float32", torch.device("cpu"), asked)
    assert found["recorded"]
    assert (max(found["others_moved"].values()) > script.PROMISED["others_moved"]) is wrong


@pytest.mark.parametrize(
    "broken",
    [
        {"engine": {"float32": {"worst_error_unrounded": 1e-4}}},
        {"engine": {"float32": {"worst_relative_error": 2e-3}}},
        {"engine": {"bfloat16": {"clip_excess": 1e-5}}},
        {"engine": {"bfloat16": {"worst_error_replayed": 1e-2}}},
        {"engine": {"float32": {"recorded": True}}},
        {"engine": {"bfloat16": {"others_moved": {"places": 0.0, "company": 1e-5}}}},
        {"recording": {"recorded": True}},
        {"recording": {"worst_relative_error": 0.1}},
        {"stream": {"equal": False}},
        {"stream": {"normal_p_value": 1e-9}},
    ],
)
def test_one_broken_promise_is_enough(broken: dict[str, dict[str, Any]]) -> None:
    row: dict[str, Any] = {"worst_relative_error": 1e-4, "worst_error_unrounded": 1e-7}
    row |= {"clip_excess": 0.0, "recorded": False}
    moved = {"others_moved": {"places": 0.0, "company": 0.0}, "worst_error_replayed": None}
    found: dict[str, dict[str, Any]] = {
        "stream": {"equal": True, "normal_p_value": 0.5},
        "recording": {"worst_relative_error": 0.0, "recorded": False},
        "engine": {"bfloat16": row | moved, "float32": row | moved},
    }
    cpu = torch.device("cpu")
    assert script.kept(cpu, *found.values())
    for name, changes in broken.items():
        for key, value in changes.items():
            old = found[name][key]
            found[name][key] = old | value if isinstance(old, dict) else value
    assert not script.kept(cpu, *found.values())


def test_products_are_not_rounded_though_the_kernels_stay() -> None:
    torch.backends.cudnn.allow_tf32 = True
    with script.unrounded_products():
        assert not torch.backends.cudnn.allow_tf32
        assert not torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cudnn.enabled
    assert torch.backends.cudnn.allow_tf32
    with script.exact_arithmetic():
        assert not torch.backends.cudnn.enabled
