"""What a metric is, and what a measurement leaves behind.

Direction, bounds and unit are attributes of the metric's class, so that tables, plots and
leaderboards cannot disagree about them. A metric that cannot be measured is a row with a
reason, never a gap.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from enum import Enum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from understudy.durable import replace_durably
from understudy.errors import UserError
from understudy.evaluation.protocol import Protocol

if TYPE_CHECKING:
    from understudy.evaluation.case import Case

Direction = Literal["higher", "lower", "none"]
Bounds = tuple[float | None, float | None]

CONFIDENCE = 0.95
FORMAT = "understudy-metrics/1"

_RELEASE_MARK = "manifest.sha256"
"""The file that every release has, and no folder of the owner's."""


class Need(Enum):
    """What a metric cannot do without."""

    LABEL = "a label"
    TRAIN = "real training records"
    CLASSIFIER = "a classifier"
    EXTRACTOR = "a feature extractor"
    IMAGES = "images"


@dataclass(frozen=True)
class ClassRecall:
    """Of one class: the share of its `tested` real records that was recognised; chance is that of
    its row. reference: the same for classifiers of real training records, where there are any."""

    name: str
    tested: int
    recall: float
    reference: float | None


@dataclass(frozen=True)
class Measurement:
    """One number with its interval, and what to hold it against.

    reference: the same quantity for real records in place of synthetic ones.
    chance: what guessing gives: for an accuracy, always answering the majority class.
    note: what must be said beside the number, such as that an attack showed nothing.
    classes: what the number is a mean of, class by class.
    """

    value: float
    low: float
    high: float
    seeds: tuple[int, ...]
    reference: float | None = None
    chance: float | None = None
    note: str | None = None
    classes: tuple[ClassRecall, ...] = ()

    @property
    def is_finite(self) -> bool:
        numbers = (self.value, self.low, self.high, self.reference or 0.0, self.chance or 0.0)
        return all(isfinite(number) for number in numbers)


@dataclass(frozen=True)
class Row:
    """One line of the table and of `metrics.json`; its fields are the keys there.

    `bounds` uses None for a side without limit. A failed row has a reason and no value.
    `selection` names the rule (`selection.py`) that chose what was measured, where a
    classifier was trained for it. `note` is what must be said beside the number. `classes` is
    there where the number is a mean over classes.
    """

    metric: str
    variant: str
    value: float | None
    low: float | None
    high: float | None
    confidence: float
    direction: Direction
    unit: str
    bounds: Bounds
    seeds: tuple[int, ...]
    reference: float | None
    chance: float | None
    extractor: str | None
    status: Literal["ok", "failed"]
    reason: str | None
    selection: str | None = None
    note: str | None = None
    classes: tuple[ClassRecall, ...] = ()

    def to_json(self) -> dict[str, Any]:
        told = {**asdict(self), "bounds": list(self.bounds), "seeds": list(self.seeds)}
        classes = told.pop("classes")
        return {**told, "classes": list(classes)} if classes else told

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Row:
        values = {f.name: data[f.name] for f in fields(Row) if f.default is MISSING}
        values |= {f.name: data.get(f.name) for f in fields(Row) if f.default is not MISSING}
        values["bounds"] = tuple(values["bounds"])
        values["seeds"] = tuple(values["seeds"])
        values["classes"] = tuple(ClassRecall(**one) for one in data.get("classes") or ())
        return Row(**values)


class Metric(ABC):
    """A quantity that can be measured on a case.

    `tool` is the classifier or extractor that this instance uses, where the class needs one.
    """

    name: ClassVar[str]
    direction: ClassVar[Direction]
    bounds: ClassVar[Bounds]
    unit: ClassVar[str]
    needs: ClassVar[frozenset[Need]]

    def __init__(self, tool: str = "") -> None:
        self.tool = tool

    @classmethod
    def instances(cls, protocol: Protocol) -> tuple[Metric, ...]:
        """One instance for each classifier or extractor of the protocol that it needs."""
        if Need.CLASSIFIER in cls.needs:
            return tuple(cls(name) for name in protocol.classifiers)
        if Need.EXTRACTOR in cls.needs:
            return tuple(cls(name) for name in protocol.extractors)
        return (cls(),)

    @property
    def title(self) -> str:
        """The name in the table."""
        return self.name

    @property
    def variant(self) -> str:
        return self.tool if Need.CLASSIFIER in self.needs else ""

    @property
    def extractor(self) -> str | None:
        return self.tool if Need.EXTRACTOR in self.needs else None

    @property
    def selection(self) -> str | None:
        """The rule that chooses the classifier, where one is trained."""
        return None

    @abstractmethod
    def measure(self, case: Case) -> Measurement:
        """The number; any exception becomes the reason of a failed row."""

    def row(self, case: Case) -> Row:
        """Measure, and turn whatever goes wrong into a failed row."""
        reason = self._unmet(case)
        if reason is not None:
            return self._row(None, reason)
        try:
            measurement = self.measure(case)
        except UserError as error:
            return self._row(None, str(error))
        except Exception as error:  # noqa: BLE001  the one place: a metric's failure is a row
            return self._row(None, f"{type(error).__name__}: {error}")
        if not measurement.is_finite:
            return self._row(None, f"not every number is finite in {measurement}")
        return self._row(measurement, None)

    def _unmet(self, case: Case) -> str | None:
        if Need.LABEL in self.needs and case.test.schema.label is None:
            return "needs a label, and none was chosen"
        if Need.TRAIN in self.needs and case.train is None:
            return "needs the real training records, which were not given"
        if {Need.EXTRACTOR, Need.IMAGES} & self.needs and not case.test.is_images:
            return "needs images"
        return None

    def _row(self, measurement: Measurement | None, reason: str | None) -> Row:
        return Row(
            metric=self.title,
            variant=self.variant,
            value=measurement.value if measurement else None,
            low=measurement.low if measurement else None,
            high=measurement.high if measurement else None,
            confidence=CONFIDENCE,
            direction=self.direction,
            unit=self.unit,
            bounds=self.bounds,
            seeds=measurement.seeds if measurement else (),
            reference=measurement.reference if measurement else None,
            chance=measurement.chance if measurement else None,
            extractor=self.extractor,
            status="ok" if measurement else "failed",
            reason=reason,
            selection=self.selection,
            note=measurement.note if measurement else None,
            classes=measurement.classes if measurement else (),
        )


@dataclass(frozen=True)
class Evaluation:
    """All rows of one evaluation with the protocol that made them.

    It is computed from real records: it belongs to the owner and never goes into a release.
    verdict: what the figures come to, in sentences (`verdict.py`), where somebody asked for it.
    """

    rows: tuple[Row, ...]
    protocol: Protocol
    dataset: str
    synthetic_count: int
    verdict: tuple[str, ...] = ()

    def __repr__(self) -> str:
        failed = sum(row.status == "failed" for row in self.rows)
        return (
            f"Evaluation({len(self.rows)} rows, {failed} failed, {self.protocol.name} on "
            f"{self.dataset})"
        )

    def _repr_html_(self) -> str:
        from html import escape

        from understudy.evaluation.metric_table import render_table

        return f"<pre>{escape(render_table(self))}</pre>"

    @property
    def benchmark_only(self) -> bool:
        """Whether real records chose some of its figures: nothing may be decided by them."""
        return self.protocol.benchmark_only

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "protocol": self.protocol.to_json(),
            "dataset": self.dataset,
            "synthetic_count": self.synthetic_count,
            "rows": [row.to_json() for row in self.rows],
            **({"verdict": list(self.verdict)} if self.verdict else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Evaluation:
        if data.get("format") != FORMAT:
            raise UserError(f"metrics have format {data.get('format')!r}; {FORMAT!r} is known.")
        return Evaluation(
            rows=tuple(Row.from_json(row) for row in data["rows"]),
            protocol=Protocol.from_json(data["protocol"]),
            dataset=data["dataset"],
            synthetic_count=data["synthetic_count"],
            verdict=tuple(data.get("verdict") or ()),
        )

    def write(self, folder: Path) -> Path:
        """Write `metrics.json` into the folder, whole or not at all; never into a release."""
        path = folder / "metrics.json"
        if any((place / _RELEASE_MARK).exists() for place in (folder, folder.parent)):
            raise UserError(f"{folder} lies in a release, which is handed on; choose another.")
        text = json.dumps(self.to_json(), indent=1, allow_nan=False)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            replace_durably(path, f"{text}\n".encode())
        except OSError as error:
            raise UserError(f"{path} could not be written: {error.strerror}.") from error
        return path

    @staticmethod
    def read(path: Path) -> Evaluation:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return Evaluation.from_json(data)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} cannot be read as metrics: {error!r}") from error
