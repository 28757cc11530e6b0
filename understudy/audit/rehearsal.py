"""A rehearsal: one tiny run of a method on made-up records, with everything it leaves.

The contract checks look at rehearsals; no real data, no account book, no release.
"""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.data.weights_file import WeightsFile
from understudy.errors import UserError
from understudy.methods.contract import (
    Facts,
    Fitted,
    FixedSet,
    Method,
    PublicInputs,
    RecordMap,
    Sampler,
)
from understudy.privacy.door.door import Door
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.door.replay_tape import Tape
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.plan import Plan
from understudy.progress import Progress, Silent

DECLARED = 64
"""The declared count of made-up units: the same whatever the realised number is."""

_SEED = 7
_SAMPLES = 7
_PUBLIC = 20


_LABEL = Schema((Attribute("label", ("a", "b", "c")),), label="label")

_HIDING = Schema(
    (*_LABEL.attributes, Attribute("kept", ("d", "e")), Attribute("hidden", ("f", "g"))),
    label="label",
    sensitive=("hidden",),
    utility=("kept",),
)


def made_up_records(count: int, seed: int, hides: bool = False) -> Records:
    """Random 8x8 grey images in three classes; for a method that hides, with what it hides."""
    rng, schema = np.random.default_rng(seed), _HIDING if hides else _LABEL
    images = rng.integers(0, 256, (count, 1, 8, 8), dtype=np.uint8)
    codes = {a.name: rng.integers(0, len(a.classes), count) for a in schema.attributes}
    return Records(images, codes, schema)


def made_up_facts(parts: Iterable[str], hides: bool = False) -> Facts:
    like = made_up_records(1, 0, hides)
    counts = dict.fromkeys(parts, DECLARED)
    return Facts(sum(counts.values()), counts, like.shape, like.schema)


def made_up_public(
    method: Method, weights: Mapping[str, WeightsFile] = MappingProxyType({})
) -> PublicInputs:
    """Public records for every name that the method asks for, the same ones every time.

    weights: by name; nobody can make those up.
    """
    info = method.info
    for entry in info.public_weights:
        if entry.needed and entry.name not in weights:
            raise UserError(
                f"{info.name} needs public weights called {entry.name!r}, which cannot be made up; "
                f"name them with --weights {entry.name}=FILE."
            )
    records = {entry.name: made_up_records(_PUBLIC, _SEED) for entry in info.public_records}
    return PublicInputs(records, weights)


@dataclass
class Rehearsal:
    """What one tiny run left behind, as digests that can be compared."""

    result: Fitted
    records: Records | None
    tape: Tape
    spent: Mapping[str, int]
    traces: dict[str, str] = field(default_factory=dict)


def rehearse(
    method: Method,
    config: Any,
    plan: Plan,
    *,
    count: int,
    seed: int,
    tape: Tape | None = None,
    weights: Mapping[str, WeightsFile] = MappingProxyType({}),
    mapped: bool = True,
) -> Rehearsal:
    """Fit `method` on `count` made-up records, deterministically but for the door's noise.

    mapped: a `RecordMap` is applied too. What it lets out follows the records, so a replay looks
    at what it was fitted to alone.
    """
    tape = tape or Tape()
    with tempfile.TemporaryDirectory() as name, _deterministic():
        folder = Path(name)
        door = Door(
            Journal.create(folder, plan, {}), NoiseSource(), tape=tape, shard_key=b"rehearsal" * 4
        )
        context = _Context(door)
        names = method.info.parts
        parts = {
            part: made_up_records(count, seed + i, method.info.hides)
            for i, part in enumerate(names)
        }
        handles = door.handles(parts, dict.fromkeys(names, DECLARED))
        try:
            result = method.fit(config, handles, plan, made_up_public(method, weights), context)
            part = handles[method.info.maps or method.info.first_part]
            records = _records_of(result, part if mapped else None)
            door.settle()
        finally:
            door.abandon()
        traces = {
            "checkpoints": context.digest.hexdigest(),
            "generators": _generators(),
            "scratch files": _tree_digest(door.scratch),
            "saved files": _saved_digest(result, folder),
            "the method's own attributes": _object_digest(method),
            "the result's attributes": _object_digest(result),
            "records": _records_digest(records),
        }
        spent = {m.name: door.spent(m) for m in plan.mechanisms}
    return Rehearsal(result, records, tape, spent, traces)


class _Context:
    """Lends what a run lends, and digests every state that the method stages."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.digest = hashlib.sha256()
        self.progress: Progress = Silent()
        self.device = torch.device("cpu")
        self.seed = _SEED
        self.folder = door.scratch

    def checkpoint(self, snapshot: Callable[[], State]) -> None:
        state = snapshot()
        _feed(self.digest, {"tensors": dict(state.tensors), "values": dict(state.values)}, set())
        self._door.checkpoint(snapshot)

    def restore(self) -> State | None:
        return self._door.restore()


@contextmanager
def _deterministic() -> Iterator[None]:
    """One thread, deterministic algorithms, fixed seeds; all put back afterwards."""
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    python, legacy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    random.seed(_SEED)
    np.random.seed(_SEED)
    torch.manual_seed(_SEED)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict)
        random.setstate(python)
        np.random.set_state(legacy)
        torch.set_rng_state(cpu)


def _generators() -> str:
    digest = hashlib.sha256(repr(random.getstate()).encode())
    digest.update(repr(np.random.get_state()).encode())
    digest.update(torch.get_rng_state().numpy().tobytes())
    return digest.hexdigest()


def _tree_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(str(file.relative_to(folder)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _saved_digest(result: Fitted, folder: Path) -> str:
    target = folder / "saved"
    target.mkdir()
    result.save(target)
    return _tree_digest(target)


def _records_of(result: Fitted, private: PrivateRecords | None) -> Records | None:
    """The records that it makes, in the process that fitted: there a module or a class may have
    kept something that no attribute and no file shows. A `RecordMap` maps `private`."""
    if isinstance(result, Sampler):
        return result.sample(_SAMPLES, seed=_SEED)
    if isinstance(result, FixedSet):
        return result.records()
    return None if private is None or not isinstance(result, RecordMap) else result.apply(private)


def _records_digest(records: Records | None) -> str:
    digest = hashlib.sha256()
    if records is not None:
        made = {"features": records.features, "attributes": dict(records.attributes)}
        _feed(digest, made, set())
    return digest.hexdigest()


def _object_digest(thing: object) -> str:
    digest = hashlib.sha256()
    _feed(digest, getattr(thing, "__dict__", {}), set())
    return digest.hexdigest()


def _feed(digest: Any, value: Any, seen: set[int]) -> None:
    """Feed every number, text, array and tensor reachable from `value` to the digest."""
    if isinstance(value, str | int | float | complex | bytes | bytearray | type(None)):
        digest.update(repr(value).encode())
    elif id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        elif isinstance(value, np.ndarray | np.generic):
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            for name, part in _parts(value):
                digest.update(name.encode())
                _feed(digest, part, seen)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container or object holds, in a fixed order."""
    if isinstance(value, Mapping):
        yield from ((str(key), value[key]) for key in sorted(value, key=str))
    elif isinstance(value, list | tuple | deque):
        yield from ((str(i), item) for i, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from ((str(i), item) for i, item in enumerate(sorted(value, key=repr)))
    elif is_dataclass(value):
        yield from ((entry.name, getattr(value, entry.name)) for entry in fields(value))
    elif hasattr(value, "__dict__"):
        yield from _parts(vars(value))
