"""Planted faults: every patch applies, every one is caught, and the machinery can tell.

`make mutants` runs the same trials by themselves and prints survivors by name.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from tests.mutants.__main__ import main
from tests.mutants.faults import Fault, all_faults
from tests.mutants.patches import ROOT, Edit, PatchError, patched_sources
from tests.mutants.trials import Outcome, failing_lines, judge

FAULTS = all_faults()
TRIALS = 2


def test_there_are_many_and_each_says_what_it_stands_for() -> None:
    assert len(FAULTS) >= 100
    assert [f.name for f in FAULTS if not (f.stands_for and f.fails_with and f.edits)] == []


def test_each_names_an_assertion_and_not_just_any() -> None:
    anything = {"assert", "AssertionError", "Error", "False", "True", "not in", "in", "inf", "=="}
    assert [f.name for f in FAULTS if f.fails_with.strip() in anything] == []


def test_words_of_lines_that_passed_are_no_proof() -> None:
    told = "    def test():\n        assert first\n>       assert second\nE       assert False\n"
    assert failing_lines(told) == ">       assert second\nE       assert False"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("half the noize",), "no planted fault 'half the noize'; did you mean 'half the noise'?"),
        (("half the noise", "--jobs", "0"), "--jobs must be 1 or more, not 0."),
    ],
)
def test_bad_words_are_refused_in_a_sentence(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_patch_still_applies(fault: Fault) -> None:
    for edit in fault.edits:
        assert edit.old != edit.new
    assert patched_sources(fault.edits)


def planted(*names: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: here the package is imported already."""
    words = [sys.executable, "-m", "tests.mutants", "--planted-only", "--jobs", "1", *names]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(TRIALS))
def test_no_planted_fault_survives(share: int) -> None:
    """All of them, in shares that can run beside one another."""
    done = planted(*(fault.name for fault in FAULTS[share::TRIALS]))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_patch_that_does_not_apply_is_an_error() -> None:
    missing = Edit.parse("understudy.privacy.door.door:Door.noised", "no such text", "pass")
    twice = Edit.parse("understudy.privacy.door.door", "self", "this")
    nowhere = Edit.parse("understudy.privacy.door.door:Door.nothing", "self", "this")
    for edit, words in ((missing, "0 times"), (twice, "times, not once"), (nowhere, "has no")):
        with pytest.raises(PatchError, match=words):
            patched_sources([edit])


def test_lines_are_found_whatever_their_indentation() -> None:
    edit = Edit.parse("m", "if a:\n    b()", "if a:\n    c()\n    d()")
    source = "def f():\n        if a:\n            b()\n"
    assert edit.apply(source) == "def f():\n        if a:\n            c()\n            d()\n"


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (Outcome("passed", "", 0.0), "passed"),
        (Outcome("broke", "ImportError", 0.0), "did not run"),
        (Outcome("failed", "another reason", 0.0), "without saying"),
        (Outcome("failed", f"{FAULTS[0].fails_with}\nE   NameError: x", 0.0), "crashes"),
    ],
)
def test_only_the_named_failure_counts_as_caught(outcome: Outcome, why: str) -> None:
    verdict = judge(FAULTS[0], outcome)
    assert not verdict.caught
    assert why in verdict.why
    assert judge(FAULTS[0], replace(outcome, state="failed", words=FAULTS[0].fails_with)).caught
