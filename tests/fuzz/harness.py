"""One input through the command line, in this process, and everything that may go wrong."""

from __future__ import annotations

import io
import os
import resource
import signal
import tempfile
import traceback
import zlib
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from unittest import mock

import numpy as np

from tests.fuzz.mutations import mutated
from tests.fuzz.scene import Scene
from tests.fuzz.targets import Target, command
from understudy.cli.main import run

MOST_BYTES = 4 << 30
MOST_SECONDS = 20.0
"""Of the processor; an input takes a few hundredths."""

NO_MEMORY = "there is not enough memory"


@dataclass(frozen=True)
class Finding:
    """An input that broke a promise, where it was kept, and how."""

    target: str
    number: int
    kept: Path
    what: str

    def __str__(self) -> str:
        again = f"python -m tests.fuzz.replay {self.target} {self.number}"
        return f"{self.what}\n  input {self.kept}\n  again: {again}"


class TooLongError(Exception):
    """The input was still being read after `MOST_SECONDS`."""


def fuzz(target: Target, numbers: range, scene: Scene) -> list[Finding]:
    """What these inputs of a target broke; the first few are enough."""
    found: list[Finding] = []
    for number in numbers:
        finding = try_one(target, number, scene)
        if finding is not None:
            found.append(finding)
        if len(found) == 5:
            break
    return found


def try_one(target: Target, number: int, scene: Scene) -> Finding | None:
    """Spoil one file of the scene and run the target's command there."""
    scene.restore()
    path = spoil(target, number, scene.folder)
    kept = path.read_bytes()
    whole = (scene.pristine / path.relative_to(scene.folder)).read_bytes()
    if target.before is not None:
        target.before(scene.folder)
    sealed = target.never_fine and not target.beyond(whole, kept)
    what = broken_promise(target, scene, sealed)
    if what is None:
        return None
    return Finding(target.name, number, _keep(target, number, path.name, kept), what)


def spoil(target: Target, number: int, folder: Path) -> Path:
    """Put spoilt bytes in the place of one file; the same number gives the same."""
    random = np.random.default_rng([zlib.crc32(target.name.encode()), number])
    files = sorted({p for pattern in target.files for p in folder.glob(pattern) if p.is_file()})
    path = files[random.integers(len(files))]
    path.write_bytes(mutated(path.read_bytes(), target.ways, random))
    return path


def broken_promise(target: Target, scene: Scene, sealed: bool) -> str | None:
    """What went wrong, in words; None if the command kept every promise.

    sealed: the input cannot be right, so a success without a warning would be silence.
    """
    out, err = io.StringIO(), io.StringIO()
    folder = scene.folder
    environment = {"UNDERSTUDY_HOME": str(folder / "home"), "UNDERSTUDY_DATA": str(folder / "data")}
    try:
        with (
            chdir(folder),
            mock.patch.dict(os.environ, environment),
            redirect_stdout(out),
            redirect_stderr(err),
            _limited(),
        ):
            code = run(list(command(target, scene)))
    except Exception:  # noqa: BLE001  whatever it is, it is the finding
        return traceback.format_exc(limit=-6)
    said = err.getvalue()
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in said + out.getvalue():
        return f"a traceback was printed: {said}"
    if code == 2 and not said.startswith("error: ") and "\nerror: " not in said:
        return f"exit code 2 without a sentence: {said!r}"
    if NO_MEMORY in said:
        return "it asked for more than 4 GB of memory"
    if code == 0 and sealed and "warning: " not in said:
        return f"silently accepted: {out.getvalue()}"
    return None


@contextmanager
def _limited() -> Iterator[None]:
    """At most 4 GB more than now, and so much of the processor's time."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TooLongError(f"more than {MOST_SECONDS:g} seconds")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _keep(target: Target, number: int, name: str, spoilt: bytes) -> Path:
    """Write a failing input to where it can be looked at."""
    kept = Path(tempfile.gettempdir()) / "understudy-fuzz" / f"{target.name}-{number}-{name}"
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(spoilt)
    return kept
