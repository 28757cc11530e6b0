"""The plan that the account book was given is the plan that the ledger follows."""

from __future__ import annotations

import json
import shutil

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace


def test_a_ledger_of_another_plan_is_refused(workplace: Workplace) -> None:
    """Else the book would hold a small plan while a large one is spent."""
    drawing.class_folder(workplace / "photos")
    for name, epsilon in (("small", "1"), ("large", "9")):
        words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", epsilon, "-o", name)
        workplace.run(*words).succeeded()
    small, large = workplace / "runs/small", workplace / "runs/large"
    for name in ("ledger.jsonl", "checkpoints", "synthesizer", "samples"):
        path = small / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copy(large / "ledger.jsonl", small / "ledger.jsonl")
    shutil.copytree(large / "checkpoints", small / "checkpoints")
    shutil.rmtree(workplace / "small")
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "small", "--resume")
    workplace.run(*words).refused("another plan")
    assert json.loads((small / "plan.json").read_text())["plan"]["epsilon"] <= 1
    assert not (workplace / "small").exists()


def test_a_copy_of_the_run_folder_cannot_go_on(workplace: Workplace) -> None:
    """It would draw other noise for the same plan, and the book would count it once."""
    drawing.class_folder(workplace / "photos")
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o")
    workplace.run(*words, "first").succeeded()
    shutil.copytree(workplace / "runs/first", workplace / "runs/second")
    for name in ("ledger.jsonl", "checkpoints", "synthesizer", "samples"):
        path = workplace / "runs/second" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    workplace.run(*words, "second", "--resume").refused("single-use", "runs/first")
    assert not (workplace / "second").exists()
    workplace.run(*words, "first", "--resume").succeeded()
