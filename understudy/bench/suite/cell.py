"""A cell: one run of a suite, with everything that the suite says about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from understudy.errors import UserError, did_you_mean
from understudy.methods.registry import method_name
from understudy.run.config import RunConfig, several


@dataclass(frozen=True)
class Cell:
    """One method on one dataset at one budget and seed, and how it is measured.

    method: a registered name, `package.module:Class` or `file.py:Class`.
    dataset: what `understudy.data.load` takes.
    hide, keep: attributes that the method is to hide, and those that it is to keep.
    public, weights: the method's public inputs, as `RunConfig` has them.
    epsilon: None asks for no guarantee (an empirical run).
    settings: `key=value` on top of the method's preset, sorted by key.
    preset: the name of that preset; None takes the best match.
    protocol: a name or a file for `load_protocol`.
    samples: None makes as many records as the training part declares.
    limit: use at most so many records, for a quick look; results are stamped with it.
    """

    method: str
    dataset: str
    epsilon: float | None
    delta: float = 1e-5
    seed: int = 0
    settings: tuple[str, ...] = ()
    protocol: str = "standard"
    samples: int | None = None
    label: str | None = None
    unit: str | None = None
    size: int | None = None
    channels: int | None = None
    hide: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    limit: int | None = None
    device: str = "auto"
    preset: str | None = None

    def __post_init__(self) -> None:
        for name in ("hide", "keep", "public", "weights"):
            object.__setattr__(self, name, several(getattr(self, name)))

    def run_config(self) -> RunConfig:
        """What `understudy synthesize` would be asked for; refuses what no run could be."""
        return RunConfig(
            time=None,
            source=self.dataset,
            method=self.method,
            epsilon=self.epsilon,
            delta=self.delta,
            label=self.label,
            unit=self.unit,
            size=self.size,
            channels=self.channels,
            hide=self.hide,
            keep=self.keep,
            public=self.public,
            weights=self.weights,
            preset=self.preset,
            changes=self.settings,
            samples=self.samples,
            seed=self.seed,
            device=self.device,
            limit=self.limit,
        )

    @property
    def method_name(self) -> str:
        """What the method calls itself, wherever its code lies; this is what results show."""
        if ":" not in self.method:
            return self.method
        from understudy.methods.registry import get_method

        return get_method(self.method).info.name

    @property
    def title(self) -> str:
        """How people call this run.

        >>> Cell("dp-merf", "mnist", 1.0).title
        'mnist dp-merf epsilon 1 seed 0'
        """
        budget = "no guarantee" if self.epsilon is None else f"epsilon {self.epsilon:g}"
        return f"{Path(self.dataset).name} {self.method_name} {budget} seed {self.seed}"


@dataclass(frozen=True)
class Suite:
    """A grid of runs under one name; `source` is its file, or None if it ships with us."""

    name: str
    cells: tuple[Cell, ...]
    source: Path | None = None

    def only(self, methods: Sequence[str] | None) -> Suite:
        """The runs of these methods; all of them if none is named."""
        if not methods:
            return self
        known = {cell.method_name for cell in self.cells}
        methods = [method_name(name) for name in methods]
        for name in methods:
            if name not in known:
                raise UserError(
                    f"suite {self.name} has no method {name!r}; {did_you_mean(name, known)}"
                )
        return replace(self, cells=tuple(c for c in self.cells if c.method_name in methods))
