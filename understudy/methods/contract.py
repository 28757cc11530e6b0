"""What a method is, and what it is given.

A method says beforehand what it will do to private records (`spend`), does it through
handles (`fit`), and returns a synthesizer that no longer needs them. It never holds a
record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Forecast:
    """A rough guess at what `fit` takes on two CPU cores, from declared facts alone."""

    seconds: float
    gigabytes: float


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
        """Stage a point from which `fit` can go on; the door decides when it is kept."""
        ...

    def restore(self) -> State | None:
        """The state of the last committed block, or None at a fresh start."""
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


@runtime_checkable
class Synthesizer(Protocol):
    """The fitted generator. Sampling is post-processing: it costs no privacy."""

    def sample(self, n: int, labels: Any | None = None, seed: int = 0) -> Records:
        """`n` synthetic records; `labels` gives their codes, else classes are uniform."""
        ...

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path) -> Synthesizer: ...


@runtime_checkable
class Movable(Protocol):
    """What a synthesizer may also offer: sampling that takes long enough to want a device."""

    def work_on(self, device: torch.device, progress: Progress) -> None:
        """Sample on this device from now on, and show how far it is."""
        ...


@runtime_checkable
class Transformer(Protocol):
    """A fitted record-to-record map; applying it goes through the door."""

    def apply(self, private: PrivateRecords) -> Records: ...

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path) -> Transformer: ...


@runtime_checkable
class Forecasting(Protocol):
    """What a method may also offer, for `--dry-run`."""

    def forecast(self, config: Any, facts: Facts) -> Forecast: ...


@runtime_checkable
class ChecksPublic(Protocol):
    """What a method may also offer: to refuse public inputs before anything is spent."""

    def check_public(self, public: PublicInputs) -> None:
        """A `UserError` says what is wrong with records or weights."""
        ...


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
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Synthesizer | Transformer: ...
