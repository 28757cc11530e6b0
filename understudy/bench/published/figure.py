"""What a published figure is, and what is said once for all figures of a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Sound = Literal["yes", "no", "unclear", "none"]
"""Whether the claimed epsilon is delivered; "none" where no differential privacy is claimed."""


@dataclass(frozen=True)
class PublishedProtocol:
    """How a source measured.

    ours: the evaluation protocol of ours that measures the same way, or None where none does.
    """

    words: str
    ours: str | None = None


@dataclass(frozen=True)
class Soundness:
    """Our judgement of one method as its source ran or quoted it, with the reason."""

    sound: Sound
    reason: str


@dataclass(frozen=True)
class Source:
    """A paper or a repository whose figures are kept.

    tables: each table that figures come from, with its title in our words.
    metrics: what a metric means where its name is not one of ours.
    """

    name: str
    citation: str
    address: str
    tables: Mapping[str, str]
    protocols: Mapping[str, PublishedProtocol]
    soundness: Mapping[str, Soundness]
    metrics: Mapping[str, str]


@dataclass(frozen=True)
class Figure:
    """One published number.

    epsilon: None where the figure has none (no privacy claimed), infinity where it says so.
    variant: the classifier or feature extractor, empty where there is none.
    spread: the standard deviation over repeats, where the source gives it.
    protocol: an id among the source's protocols; ids of two sources are never the same thing.
    """

    source: str
    table: str
    method: str
    dataset: str
    epsilon: float | None
    delta: float | None
    metric: str
    variant: str
    value: float
    spread: float | None
    unit: str
    protocol: str
    note: str
    sound: Sound
    reason: str
