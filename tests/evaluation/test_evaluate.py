"""The whole evaluation: every metric a row, wrong input a sentence, the same seed the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from tests.evaluation.evaluation_cases import SCHEMA, with_noise
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.evaluation.evaluate import default_protocol_name, evaluate
from understudy.evaluation.metric import Evaluation
from understudy.evaluation.metric_registry import METRICS, resolve
from understudy.evaluation.metric_table import render_table
from understudy.evaluation.protocol import Protocol
from understudy.progress import Silent, Task


@pytest.fixture(scope="module")
def evaluation(train: Records, test_part: Records, quick: Protocol) -> Evaluation:
    return evaluate(with_noise(train, 60), train, test_part, quick, device="cpu", dataset="digits")


def test_every_metric_of_the_protocol_is_a_row(evaluation: Evaluation) -> None:
    assert [(row.metric, row.variant) for row in evaluation.rows] == [
        ("gen2real accuracy", "mlp"),
        ("gen2real balanced accuracy", "mlp"),
        ("real2gen accuracy", "mlp"),
        ("FD[random-conv]", ""),
        ("KD[random-conv]", ""),
        ("precision[random-conv]", ""),
        ("recall[random-conv]", ""),
    ]
    assert {row.status for row in evaluation.rows} == {"ok"}
    assert (evaluation.dataset, evaluation.synthetic_count) == ("digits", 1437)


def test_every_number_has_interval_seeds_reference_and_bounds(evaluation: Evaluation) -> None:
    for row in evaluation.rows:
        assert row.value is not None
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.value <= row.high
        assert row.seeds
        assert row.reference is not None
        low, high = row.bounds
        assert low is None or low <= row.low
        assert high is None or row.high <= high
        assert (row.chance is not None) == row.metric.endswith("accuracy")


def test_the_same_seed_gives_the_same_rows_and_another_does_not(
    evaluation: Evaluation, train: Records, test_part: Records, quick: Protocol
) -> None:
    synthetic = with_noise(train, 60)
    again = evaluate(synthetic, train, test_part, quick, device="cpu", dataset="digits")
    other = evaluate(synthetic, train, test_part, quick, device="cpu", dataset="digits", seed=1)
    assert again == evaluation
    assert other.rows != evaluation.rows


def test_without_training_records_the_gap_is_said(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    rows = evaluate(train, None, test_part, quick, device="cpu").rows
    assert [row.status for row in rows] == ["ok", "ok", "failed", *["ok"] * 4]
    assert all(row.reference is None for row in rows)


def test_missing_weights_are_a_failed_row_beside_good_ones(
    train: Records,
    test_part: Records,
    quick: Protocol,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: object,
) -> None:
    monkeypatch.setenv("UNDERSTUDY_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    protocol = replace(
        quick, metrics=("frechet-distance",), extractors=("lenet-mnist", "random-conv")
    )
    failed, good = evaluate(train, None, test_part, protocol, device="cpu").rows
    assert failed.reason == (
        "weights lenet_mnist.npz were not found; put the file into $UNDERSTUDY_WEIGHTS."
    )
    assert (failed.metric, good.status) == ("FD[lenet-mnist]", "ok")


def test_records_without_a_label_still_get_fidelity(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    bare = Schema(SCHEMA.attributes)
    rows = evaluate(
        train.with_schema(bare), None, test_part.with_schema(bare), quick, device="cpu"
    ).rows
    assert [row.status for row in rows] == [*["failed"] * 3, *["ok"] * 4]
    assert rows[0].reason == "needs a label, and none was chosen"


def renamed(records: Records, name: str, classes: tuple[str, ...]) -> Records:
    schema = Schema((Attribute(name, classes),), label=name)
    return Records(records.features, {name: records.labels}, schema)


def test_records_that_do_not_match_are_refused(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    small = replace(train, features=train.features[:, :, :7, :7])
    with pytest.raises(UserError, match=r"synthetic records are uint8 \[1, 7, 7\] and test"):
        evaluate(small, train, test_part, quick)
    with pytest.raises(UserError, match=r"train records are uint8 \[1, 7, 7\]"):
        evaluate(train, small, test_part, quick)
    other = renamed(train, "number", SCHEMA.classes)
    with pytest.raises(UserError, match="synthetic records is 'number' and that of the test"):
        evaluate(other, train, test_part, quick)
    shuffled = renamed(train, "digit", tuple("1234567890"))
    with pytest.raises(UserError, match="same classes in the same order"):
        evaluate(shuffled, train, test_part, quick)
    with pytest.raises(UserError, match="synthetic holds no records"):
        evaluate(train.select(np.arange(0)), train, test_part, quick)
    with pytest.raises(UserError, match="test holds no records"):
        evaluate(train, train, test_part.select(np.arange(0)), quick)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics": ("gen2rael",)}, r"no metric 'gen2rael'; did you mean gen2real\?"),
        ({"classifiers": ("cnm",)}, r"no classifier 'cnm'; did you mean cnn"),
        ({"extractors": ("inception",)}, r"no extractor 'inception'; did you mean inception-v3\?"),
        ({"extractors": ()}, "lists frechet-distance but no classifier or extractor"),
    ],
)
def test_wrong_names_are_refused_before_any_work(
    train: Records,
    test_part: Records,
    quick: Protocol,
    settings: dict[str, tuple[str, ...]],
    message: str,
) -> None:
    with pytest.raises(UserError, match=message):
        evaluate(train, train, test_part, replace(quick, **settings))


def test_every_metric_of_the_registry_declares_itself() -> None:
    for name in METRICS:
        metric = resolve("metric", name, METRICS)
        assert metric.direction in ("higher", "lower", "none")
        assert len(metric.bounds) == 2
        assert metric.unit
        assert metric.needs


def test_progress_is_told(train: Records, test_part: Records, quick: Protocol) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.opened: list[str] = []
            self.done = 0

        @contextmanager
        def task(self, description: str, total: int | None = None) -> Iterator[Recorder]:
            self.opened.append(f"{description} ({total})")
            yield self

        def advance(self, steps: int = 1) -> None:
            self.done += steps

        def note(self, text: str) -> None:
            del text

        def say(self, line: str) -> None:
            del line

    recorder = Recorder()
    protocol = replace(quick, metrics=("gen2real", "frechet-distance"), seeds=1)
    evaluate(train, None, test_part, protocol, device="cpu", progress=recorder)
    assert recorder.opened == [
        "evaluate (3)",
        "train mlp, seed 0 (60)",
        "features of random-conv (200)",
        "features of random-conv (200)",
    ]
    assert recorder.done == 3 + 60 + 400


def test_the_default_protocol_follows_the_device() -> None:
    assert default_protocol_name("cpu") == "standard"
    assert default_protocol_name("cuda") == "full"


def test_the_table_shows_values_failures_and_the_stamp(
    evaluation: Evaluation, train: Records, test_part: Records, quick: Protocol
) -> None:
    text = render_table(evaluation)
    row = evaluation.rows[0]
    assert f"{row.value:.3f}" in text.splitlines()[2]
    assert f"{row.low:.3f} to {row.high:.3f}" in text.splitlines()[2]
    assert text.splitlines()[-2:] == [
        "random-conv: random features: comparable only with itself",
        quick.stamp,
    ]
    failing = evaluate(
        train, None, test_part, replace(quick, metrics=("real2gen",), stamp=None), device="cpu"
    )
    lines = render_table(failing).splitlines()
    assert lines[2] == (
        "real2gen accuracy  mlp      failed: needs the real training records, which were not given"
    )
    assert lines[-1] == "intervals: 95% confidence"


class StoppedAfterTwo(Silent):
    """Somebody presses Ctrl-C after the second figure, and reads what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        with super().task(description, total) as bar:
            if description == "evaluate":
                bar.advance = self._count  # type: ignore[method-assign]
            yield bar

    def say(self, line: str) -> None:
        self.said.append(line)

    def _count(self, steps: int = 1) -> None:
        self.done = getattr(self, "done", 0) + steps
        if self.done == 2:
            raise KeyboardInterrupt


def test_what_was_found_is_said_when_it_is_stopped(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    shown = StoppedAfterTwo()
    with pytest.raises(KeyboardInterrupt):
        evaluate(train, train, test_part, quick, device="cpu", progress=shown)
    first, second, last = shown.said
    assert first.startswith("gen2real accuracy mlp: 0.")
    assert second.startswith("gen2real balanced accuracy mlp: 0.")
    assert last == "stopped after 2 of 7 figures; none of them is kept."
