"""The demo: both methods on the built-in digits, from records to verified releases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from understudy.errors import UserError
from understudy.evaluation.metric import Evaluation
from understudy.evaluation.protocol import load_protocol
from understudy.privacy.ledger.account_totals import Totals
from understudy.progress import Progress, Silent
from understudy.release.verify import Verification, verify
from understudy.run.config import NOTHING_SELECTED, RunConfig
from understudy.run.evaluate import evaluate_run
from understudy.run.spent import spent
from understudy.run.synthesize import RunResult, synthesize

METHODS = ("dp-merf", "dp-gan")
EPSILON = 10.0


@dataclass(frozen=True)
class DemoRun:
    """One method's release with its check and its figures."""

    result: RunResult
    verification: Verification
    evaluation: Evaluation


@dataclass(frozen=True)
class Demo:
    """Everything the demo made."""

    folder: Path
    runs: tuple[DemoRun, ...]
    totals: Totals


def demo(folder: Path, *, progress: Progress | None = None) -> Demo:
    """Synthesize, evaluate (reduced protocol), release and verify, twice, and add up.

    The account book lies in the demo's folder, so demos never add to the owner's own.
    """
    if folder.exists():
        raise UserError(f"the folder {folder} exists already; choose another or delete it.")
    shown = progress or Silent()
    home = folder / "book"
    with _one_thread():
        runs = tuple(_run(folder, method, home, shown) for method in METHODS)
    return Demo(folder, runs, spent("digits", home=home))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Networks for 8x8 images are too small to share: a second thread only waits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run(folder: Path, method: str, home: Path, progress: Progress) -> DemoRun:
    progress.say(f"{method} on digits at epsilon {EPSILON:g}")
    config = RunConfig(
        time=None,
        source="digits",
        method=method,
        epsilon=EPSILON,
        device="cpu",
        selected_by=NOTHING_SELECTED,
        selection_covered=True,
    )
    run_folder = folder / "runs" / method
    out = folder / "releases" / method
    result = synthesize(config, out, run_folder=run_folder, home=home, progress=progress)
    evaluation = evaluate_run(
        run_folder, load_protocol("reduced"), device="cpu", home=home, progress=progress
    )
    return DemoRun(result, verify(out, digest=result.digest), evaluation)
