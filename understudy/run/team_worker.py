"""The processes of a team besides the first: the same method, and nothing of the run's own.

No ledger, no door, no noise, no file that stays: those are the first process's. As `execute_plan`,
this needs torch, numpy and safetensors alone.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from understudy.errors import UserError
from understudy.methods.contract import PublicInputs
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.team.doors import FollowingDoor
from understudy.privacy.team.team import Team
from understudy.progress import Silent
from understudy.run.context import FollowingContext, choose_device
from understudy.run.execute_plan import MethodInputs


def work_for_leader(inputs: MethodInputs, team: Team, noise: NoiseSource | None = None) -> None:
    """Fit along with the first process, which is in `execute_plan`; what comes of it is its.

    Guarantee: units of this process's shard join by a secret stream of its own, and their
    clipped sum goes to the first process, which adds the noise. Raises KeyboardInterrupt when
    the first process was asked to stop; a process that dies stops all, by `torchrun`.
    """
    if team.leads:
        raise UserError("the first process of a team has the run; give it execute_plan.")
    if not team.number():
        return  # it is fitted already
    plan = inputs.tell(None, team)
    with tempfile.TemporaryDirectory() as name, _deaf_to_interrupts():
        room = Path(name)
        device = choose_device(inputs.device)
        door = FollowingDoor(plan, team, noise or NoiseSource(), device)
        context = FollowingContext(door, Silent(), device, inputs.seed, room / "scratch")
        context.folder.mkdir()
        handles = door.handles(inputs.parts, inputs.counts)
        public = _with_own_cache(inputs.public, room / "public")
        inputs.method.fit(inputs.config, handles, plan, public, context)


def _with_own_cache(public: PublicInputs, room: Path) -> PublicInputs:
    """What was made of public data before, in a copy: two processes must not write one file."""
    if public.cache is None:
        return public
    room.mkdir()
    for path in public.cache.glob("*"):
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, room / path.name)
    return replace(public, cache=room)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ctrl-C reaches every process; the first stops at a good moment and tells the others."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
