"""A process to be killed: forks a tiny run for every order on its standard input.

`KIND SIGNAL SECONDS FOLDER` starts (or resumes) a run, sends it the signal so long after
(none if 0), waits, and answers with its exit code. Forking saves importing torch for
every moment of death; the children are processes of their own.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from torch import nn

from tests.privacy.rig import classify, enter, mlp, open_door, pixels, records
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.door import Door
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State
from understudy.privacy.plan.mechanisms import DPSGD, Mechanism, NoisyHistogram, NoisySum

STEPS = 12
PLANS: dict[str, tuple[Mechanism, ...]] = {
    "one-shot": (NoisySum("sum", clip=1.0, sigma=1.0), NoisyHistogram("bins", bins=3, sigma=1.0)),
    "dp-sgd": (DPSGD("sgd", steps=STEPS, rate=0.2, clip=1.0, sigma=1.0),),
}
INTERRUPTED = 130


def one_shot(door: Door, folder: Path) -> None:
    private = enter(door, records(1500))

    def slow(batch: Batch) -> torch.Tensor:
        time.sleep(0.02)
        return pixels(batch)

    total = private.noisy_sum(slow, clip=1.0, sigma=1.0)
    counts = private.noisy_histogram(lambda b: b.labels, bins=3, sigma=1.0)
    (folder / "result").write_text(str([*total.tolist(), *counts.tolist()]))


def train(door: Door, folder: Path) -> None:
    private = enter(door, records(60))
    model, speed = mlp(), Speed(backend="vmap", micro_batch=16, block_steps=3)
    session = private.dp_sgd(door.plan, [model], classify, speed=speed)
    state = door.restore()
    done = 0 if state is None else int(state.values["step"])
    if state is not None:
        model.load_state_dict(dict(state.tensors))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in session.steps():
        session.step()
        done += 1
        with (folder / "shown").open("a") as file:
            file.write("step\n")
        optimiser.step()
        (door.scratch / "latest").write_text(str(session.steps_done))
        door.checkpoint(partial(_state, model, done))
    (folder / "result").write_text(str(model.state_dict()))


def _state(model: nn.Module, step: int) -> State:
    return State(dict(model.state_dict()), {"step": step})


def run(kind: str, folder: Path) -> int:
    """What a run's process does, and its exit code."""
    torch.set_num_threads(1)
    door = None
    try:
        door = open_door(folder, *PLANS[kind])
        {"one-shot": one_shot, "dp-sgd": train}[kind](door, folder)
        door.settle()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if door is not None:
            door.abandon()
    return 0


def fork_run(kind: str, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = run(kind, folder)
    except KeyboardInterrupt:  # before or after what `run` itself catches
        code = INTERRUPTED
    finally:
        os._exit(code)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:  # what torch loads at first use
        for kind in PLANS:
            run(kind, Path(folder) / kind)
    print("ready", flush=True)
    for line in sys.stdin:
        kind, number, seconds, folder = line.rstrip("\n").split(" ", 3)
        child = fork_run(kind, Path(folder))
        if int(number):
            time.sleep(float(seconds))
            os.kill(child, int(number))  # ours until it is waited for, so no stranger's
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
