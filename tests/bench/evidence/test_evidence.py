"""Evidence files: checked, sealed, never overwritten, and whole after any crash."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench.samples import MACHINE, failed_run, metric_row, run_evidence
from understudy.bench.evidence import index as index_module
from understudy.bench.evidence.evidence import (
    FORMAT,
    RunEvidence,
    check_content,
    write_all_evidence,
    write_measurement,
    write_run_evidence,
)
from understudy.bench.evidence.json_schema import check
from understudy.bench.evidence.seal import seal_holds
from understudy.bench.evidence.store import read_store
from understudy.durable import write_durably
from understudy.errors import UserError
from understudy.privacy.ledger.chained_file import ChainedFile


def measure(folder: Path, name: str = "speed", **changes: Any) -> Path:
    values: dict[str, Any] = {
        "provenance": MACHINE,
        "command": "python benchmarks/speed.py",
        "config": {"size": 64},
        "seeds": [0],
        "seconds": {"all": 1.5},
        "peak_gigabytes": None,
        "result": {"per_second": 3.0},
    }
    return write_measurement(folder, name, **{**values, **changes})


def test_a_run_is_written_with_all_it_takes_to_repeat_it(tmp_path: Path) -> None:
    path = write_run_evidence(tmp_path, run_evidence())
    found = json.loads(path.read_text())
    assert path.name.startswith("mnist-dp-merf-epsilon1-seed0-")
    assert (found["format"], found["kind"], found["name"]) == (FORMAT, "run", path.stem)
    assert found["seconds"] == {"fit": 2.0, "sample": 2.0, "evaluate": 2.0}
    assert found["peak_gigabytes"] == 0.5
    assert found["data"] == {"name": "mnist", "public": True, "hash": "d" * 64}
    assert seal_holds(found)
    assert not seal_holds({**found, "dirty": True})


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    path = measure(tmp_path)
    before = path.read_bytes()
    with pytest.raises(UserError, match=r"speed\.json exists already"):
        measure(tmp_path, result={"per_second": 9.0})
    assert path.read_bytes() == before
    path.unlink()
    measure(tmp_path, result={"per_second": 9.0})
    assert [file.trust for file in read_store(tmp_path).files] == ["trusted"]


def test_failures_of_one_cell_are_counted_on(tmp_path: Path) -> None:
    paths = [write_run_evidence(tmp_path, failed_run()) for _ in range(2)]
    assert [path.stem[-9:] for path in paths] == ["-failed-1", "-failed-2"]


def test_the_configuration_is_the_same_for_all_seeds_and_no_other(tmp_path: Path) -> None:
    runs = [run_evidence(seed=0), run_evidence(seed=1), run_evidence(settings={"steps": 11})]
    paths = write_all_evidence(tmp_path, runs)
    one, same, other = [json.loads(p.read_text())["digests"]["configuration"] for p in paths]
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"keys": {"fit": "x"}}, r"field keys\.sample is missing"),
        ({"config": {"method": "dp-merf", "seed": 0}}, r"field config\.dataset is missing"),
        ({"data_hash": "d" * 64, "public": False}, r"field data\.hash must be null"),
        ({"status": "failed", "reason": None}, "field reason must be words"),
        ({"reason": "why"}, "field reason must be null"),
        ({"limit": 100}, r"field metrics\.protocol\.stamp must be words"),
        ({"limit": 0}, "field limit must be at least 1"),
        ({"limit": 2**63}, "field limit must be at most 9223372036854775807"),
        ({"metrics": None}, "field metrics must be an object"),
        ({"status": "done"}, "field status must be ok or failed"),
    ],
)
def test_what_does_not_fit_the_schema_is_named(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        write_run_evidence(tmp_path, replace(run_evidence(), **changed))
    assert list(tmp_path.iterdir()) == []


def test_a_failure_on_private_data_says_no_more_than_its_class(tmp_path: Path) -> None:
    private = {"public": False, "dataset": "photos"}
    with pytest.raises(UserError, match="field reason must have the form"):
        write_run_evidence(tmp_path, failed_run("class cat has 3 images", **private))
    path = write_run_evidence(tmp_path, failed_run("ValueError", **private))
    assert json.loads(path.read_text())["audience"] == "owner"


def test_places_on_the_machine_are_hidden_or_refused(tmp_path: Path) -> None:
    place = "/" + "home/alice/photos"
    path = write_run_evidence(tmp_path, failed_run(f"no file {place}/1.png"))
    assert json.loads(path.read_text())["reason"] == "no file .../1.png"
    rows = [metric_row("FID", None, reason=f"no weights in {place}/w")]
    path = write_run_evidence(tmp_path, run_evidence(rows=rows))
    assert place not in path.read_text()
    with pytest.raises(UserError, match="is a place on the machine"):
        write_run_evidence(tmp_path, run_evidence(dataset=place))


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    path = measure(tmp_path, result={"ratio": float("inf"), "many": (1, -float("inf"))})
    assert json.loads(path.read_text())["result"] == {"ratio": "infinity", "many": [1, "-infinity"]}
    with pytest.raises(UserError, match=r"field result\.ratio is not a number"):
        measure(tmp_path, "other", result={"ratio": float("nan")})
    with pytest.raises(UserError, match=r"field config\.where must be plain JSON, not a path"):
        measure(tmp_path, "other", config={"where": Path("x")})
    path = write_run_evidence(tmp_path, run_evidence(epsilon=None))
    assert json.loads(path.read_text())["claim"]["epsilon"] is None


def test_the_schema_refuses_unknown_words_and_wrong_types() -> None:
    with pytest.raises(ValueError, match="multipleOf"):
        check(1, {"multipleOf": 3}, "it")
    with pytest.raises(UserError, match=r"it: field a\[1\] must be a whole number, not True"):
        check({"a": [1, True]}, {"properties": {"a": {"items": {"type": "integer"}}}}, "it")
    with pytest.raises(UserError, match="it: the whole must be 1, not True"):
        check(True, {"const": 1}, "it")
    content = {**run_evidence().content(), "name": "x", "seal": "0" * 64, "surprise": 1}
    with pytest.raises(UserError, match="field surprise is unknown"):
        check_content(content, "it")


def _write_many(folder: Path, first: int) -> None:
    for number in range(first, first + 8):
        measure(folder, f"m{number}")


def test_two_processes_may_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(tmp_path, n)) for n in (0, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    store = read_store(tmp_path)
    assert len(store.files) == 16
    assert all(file.trusted for file in store.files)
    assert store.warnings() == []


def _die_at(folder: Path, name: str, before: bool) -> None:
    """Write a measurement and be killed before or after one of its steps."""

    def deadly(step: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            if before:
                os.kill(os.getpid(), signal.SIGKILL)
            step(*args)
            os.kill(os.getpid(), signal.SIGKILL)

        return wrapped

    if name == "append":
        ChainedFile._write = deadly(ChainedFile._write)  # type: ignore[method-assign]
    elif name == "stage":
        vars(index_module)["write_durably"] = deadly(write_durably)
    else:
        Path.rename = deadly(Path.rename)  # type: ignore[method-assign]
    measure(folder, "killed")


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("step", ["stage", "append", "rename"])
def test_a_killed_writer_leaves_nothing_or_a_trusted_file(
    tmp_path: Path, step: str, before: bool
) -> None:
    measure(tmp_path, "earlier")
    process = multiprocessing.get_context("fork").Process(
        target=_die_at, args=(tmp_path, step, before)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    counts = (step, before) in {("append", False), ("rename", True), ("rename", False)}
    expected = {"earlier", "killed"} if counts else {"earlier"}
    store = read_store(tmp_path)
    assert {file.name for file in store.files if file.trusted} == expected
    assert store.warnings() == []
    measure(tmp_path, "later")
    store = read_store(tmp_path)
    assert {file.name for file in store.files if file.trusted} == expected | {"later"}
    assert store.warnings() == []
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"index.jsonl", *(f"{name}.json" for name in expected | {"later"})}


def test_half_a_hidden_file_never_counts(tmp_path: Path) -> None:
    path = measure(tmp_path)
    (tmp_path / ".half.json.new").write_bytes(path.read_bytes()[:50])
    assert [file.name for file in read_store(tmp_path).files] == ["speed"]
    measure(tmp_path, "next")
    assert not (tmp_path / ".half.json.new").exists()


def test_many_are_written_all_or_none(tmp_path: Path) -> None:
    good: RunEvidence = run_evidence()
    with pytest.raises(UserError, match="field status"):
        write_all_evidence(tmp_path, [good, replace(good, status="done")])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="have one name"):
        write_all_evidence(tmp_path, [good, good])
    assert list(tmp_path.glob("*.json")) == []
