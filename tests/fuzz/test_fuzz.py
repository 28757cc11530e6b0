"""Spoilt inputs of every kind: one sentence, no traceback, no silent acceptance, under 4 GB.

500 inputs in `make test`, 10,000 in `make audit`; each is made from its target's name and a
number, so a failing one can be made again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import harness
from tests.fuzz.harness import broken_promise, fuzz
from tests.fuzz.mutations import BYTES, JSON, TEXT, Mutation, mutated
from tests.fuzz.scene import Scene, build_scene
from tests.fuzz.targets import TARGETS, Target

LONG = os.environ.get("UNDERSTUDY_AUDIT") == "1"
INPUTS = 10_000 if LONG else 500

pytestmark = pytest.mark.audit if LONG else []


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_scene(tmp_path_factory.mktemp("scene"))


def numbers(target: Target) -> range:
    """This target's part of all inputs, at least one."""
    return range(-(-INPUTS * target.share // sum(t.share for t in TARGETS)))


def test_there_are_as_many_inputs_as_promised() -> None:
    assert sum(len(numbers(target)) for target in TARGETS) >= INPUTS


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_traceback_and_no_silent_acceptance(target: Target, scene: Scene) -> None:
    found = fuzz(target, numbers(target), scene)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("words", sorted({t.words for t in TARGETS}), ids=" ".join)
def test_what_is_not_spoilt_is_accepted(words: tuple[str, ...], scene: Scene) -> None:
    """The other side: every command of the fuzzer succeeds on the scene as it is."""
    scene.restore()
    target = next(t for t in TARGETS if t.words == words)
    assert broken_promise(target, scene, sealed=False) is None
    accepted = broken_promise(target, scene, sealed=True)
    assert accepted is not None
    assert accepted.startswith("silently accepted")


CARD = next(target for target in TARGETS if target.name == "card")


def trying(monkeypatch: pytest.MonkeyPatch, scene: Scene, outcome: object) -> str | None:
    """What the harness says when the command line does this."""

    def run(_: list[str]) -> int:
        return outcome() if callable(outcome) else outcome  # type: ignore[no-any-return,return-value]

    monkeypatch.setattr(harness, "run", run)
    return broken_promise(CARD, scene, sealed=True)


def printing(text: str, code: int) -> object:
    def outcome() -> int:
        print(text, file=sys.stderr)
        return code

    return outcome


def endless() -> int:
    while True:
        pass


def greedy() -> int:
    return len(bytearray(5 << 30))


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (lambda: 1 // 0, "ZeroDivisionError"),
        (0, "silently accepted"),
        (3, "exit code 3"),
        (printing("Traceback (most recent call last)", 1), "a traceback was printed"),
        (printing("usage", 2), "without a sentence"),
        (printing("error: there is not enough memory; sorry.", 2), "more than 4 GB"),
        (endless, "TooLongError"),
        (greedy, "MemoryError"),
        (1, None),
        (printing("error: README.md is missing.", 2), None),
    ],
)
def test_the_harness_sees_each_broken_promise(
    monkeypatch: pytest.MonkeyPatch, scene: Scene, outcome: object, words: str | None
) -> None:
    monkeypatch.setattr(harness, "MOST_SECONDS", 0.2)
    found = trying(monkeypatch, scene, outcome)
    assert found is None if words is None else words in (found or "")


def test_a_finding_names_its_input_and_can_be_made_again(
    monkeypatch: pytest.MonkeyPatch, scene: Scene, tmp_path: Path
) -> None:
    monkeypatch.setattr(harness.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(harness, "run", lambda _: 0)
    found = harness.try_one(CARD, 7, scene)
    assert found is not None
    assert "python -m tests.fuzz.replay card 7" in str(found)
    kept = found.kept.read_bytes()
    assert kept != (scene.pristine / "out/README.md").read_bytes()
    again = harness.try_one(CARD, 7, scene)
    assert again is not None
    assert again.kept.read_bytes() == kept


@pytest.mark.parametrize("ways", [BYTES, TEXT, JSON], ids=["bytes", "text", "json"])
def test_mutations_change_something_and_repeat(ways: tuple[Mutation, ...]) -> None:
    data = b'{"a": [1, 2.5, {"b": "word"}], "c": null}\n'
    made = [mutated(data, ways, np.random.default_rng(i)) for i in range(200)]
    assert data not in made
    assert len(set(made)) > 60
    assert made == [mutated(data, ways, np.random.default_rng(i)) for i in range(200)]
