"""What a method is, and what it is given.

A method says beforehand what it will do to private records (`spend`), does it through
handles (`fit`), and returns what makes or holds the synthetic records. It never holds a
private record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.data.weights_file import WeightsFile
from understudy.errors import UserError
from understudy.methods.info import TRAIN, MethodInfo
from understudy.privacy.ledger.state import State
from understudy.privacy.plan.plan import Plan, Spend
from understudy.progress import Progress

if TYPE_CHECKING:
    import torch

    from understudy.privacy.door.private_records import PrivateRecords


Conditions = Mapping[str, Any]
"""Per attribute, one code for every sample; attributes that are left out come evenly."""


@dataclass(frozen=True)
class Facts:
    """The declared, public facts that a plan may depend on.

    `count` is the declared number of units of all private parts (n0), `counts` that of
    each part. They are declarations, never the realised number of records.
    """

    count: int
    counts: Mapping[str, int]
    shape: tuple[int, ...]
    schema: Schema

    @property
    def classes(self) -> int:
        return len(self.schema.classes)

    def rate(self, batch: int, part: str = TRAIN) -> float:
        """How likely each unit of a part is drawn for a step that draws so many on average."""
        count = self.counts[part]
        if batch > count:
            where = "for training" if part == TRAIN else f"in part {part!r}"
            raise UserError(
                f"setting 'batch' is {batch} but only {count} of {self.count} declared records are "
                f"{where}: too few records for the plan; set batch to at most {count}."
            )
        return batch / count


class LoopKind(StrEnum):
    """What a loop does in a pass; each machine has a rate for each."""

    PRIVATE = "private gradients"
    ADVERSARIAL = "private gradients against a generator"
    PLAIN = "plain gradients"
    DRAWING = "drawing"
    MATCHING = "matching of features"


@dataclass(frozen=True)
class Loop:
    """One loop of `fit`, or the drawing of records after it, from declared facts alone.

    bar: what its progress bar says. setting: the setting that says how many rounds it has; None
        for drawing. passes: of a network, in one round. multiplications: of one pass forward,
        roughly.
    """

    bar: str
    setting: str | None
    rounds: int
    kind: LoopKind
    passes: float
    multiplications: float


class Context(Protocol):
    """What a run lends to a method while it fits."""

    @property
    def progress(self) -> Progress: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def seed(self) -> int:
        """Covers initialisation and post-processing only, never noise or sampling."""
        ...

    @property
    def folder(self) -> Path:
        """Scratch space of the method inside the run folder; it is not released."""
        ...

    def checkpoint(self, snapshot: Callable[[], State]) -> None:
        """Stage a point from which `fit` can go on. Among DP-SGD steps the door decides when it is
        kept; between releases it is kept at once."""
        ...

    def restore(self) -> State | None:
        """The state that was kept last, or None at a fresh start.

        Outputs that it had seen are not given again; later ones are, in their order. So what
        `fit` still needs of the former must be in the state.
        """
        ...


@dataclass(frozen=True)
class PublicInputs:
    """Public records and weights that a method may look at freely, by the names in its `info`.

    weights: files whose digest was compared; the method opens them, and never by unpickling.
    cache: where a method may keep what it made from them alone, for later runs; None: nowhere.
    """

    records: Mapping[str, Records] = field(default_factory=dict)
    weights: Mapping[str, WeightsFile] = field(default_factory=dict)
    cache: Path | None = None


class Fitted(Protocol):
    """What `fit` returns: of a method that makes records a `Sampler`, a `FixedSet` or a
    `RecordMap`; an encoder that is learnt makes none."""

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path) -> Fitted: ...


@runtime_checkable
class Sampler(Protocol):
    """A fitted generator. Sampling is post-processing: it costs no privacy."""

    def sample(self, n: int, conditions: Conditions | None = None, seed: int = 0) -> Records:
        """`n` synthetic records; attributes that `conditions` leaves out come evenly."""
        ...

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path) -> Sampler: ...


@runtime_checkable
class FixedSet(Protocol):
    """Records that were made during `fit`; their labels may be probabilities.

    Its method says beforehand how many they are (`FixedSize`).
    """

    def records(self) -> Records: ...

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path) -> FixedSet: ...


@runtime_checkable
class RecordMap(Protocol):
    """A fitted record-to-record map, applied through the door while the ledger is open.

    Guarantee: none, the claim is empirical, unless the map is one of privacy's own local
    mechanisms (see `PrivateRecords.transform`).
    """

    def apply(self, private: PrivateRecords) -> Records: ...

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path) -> RecordMap: ...


@runtime_checkable
class FixedSize(Protocol):
    """What a method that makes a `FixedSet` offers too."""

    def size(self, config: Any, facts: Facts) -> int:
        """How many records the set will hold: a function of settings and declared facts."""
        ...


def require_size(method: Method) -> None:
    """Refuse a method that makes a `FixedSet` and does not say beforehand how large."""
    if callable(getattr(method.Output, "records", None)) and not isinstance(method, FixedSize):
        raise UserError(
            f"{method.info.name} makes a fixed set and does not say how large; give it a method "
            "size(config, facts)."
        )


@runtime_checkable
class Movable(Protocol):
    """What a sampler may also offer: sampling that takes long enough to want a device."""

    def work_on(self, device: torch.device, progress: Progress) -> None:
        """Sample on this device from now on, and show how far it is."""
        ...


@runtime_checkable
class Forecasting(Protocol):
    """What a method may also offer: what a run takes, so that it can be told, and fitted into a
    time."""

    def loops(self, config: Any, facts: Facts, samples: int) -> Sequence[Loop]:
        """Every loop that takes long, in order; the last may be the drawing of `samples`."""
        ...

    def gigabytes(self, config: Any, facts: Facts) -> float:
        """Of memory, roughly, on a processor."""
        ...


@runtime_checkable
class ChecksPublic(Protocol):
    """What a method may also offer: to refuse public inputs before anything is spent."""

    def check_public(self, public: PublicInputs) -> None:
        """A `UserError` says what is wrong with records or weights."""
        ...


Parts = Mapping[str, "PrivateRecords"]
"""A handle to the private records of each part, by the names of `info.parts`."""


class Method(Protocol):
    """The whole extension contract; `understudy check-method` tests it."""

    info: ClassVar[MethodInfo]
    Config: ClassVar[type]
    Output: ClassVar[type]
    """The class of what `fit` returns; its `load` reads back what its `save` wrote."""

    def spend(self, config: Any, facts: Facts) -> Spend:
        """What `fit` will do to private records, as a function of the noise multiplier."""
        ...

    def fit(
        self,
        config: Any,
        parts: Parts,
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Fitted: ...
