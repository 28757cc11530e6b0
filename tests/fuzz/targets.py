"""What is fuzzed: which file is spoilt, how, which command reads it, and what must not happen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.mutations import BYTES, JSON, TEXT, Mutation
from tests.fuzz.scene import RUN, Scene
from tests.release.forge import rehash
from understudy.release.claim_check import close

Words = tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """One kind of input.

    files: patterns below the scene's folder, one of whose files is spoilt.
    words: the command line; `{digest}` stands for that of the release as it was.
    never_fine: exit code 0 would be silent acceptance, because the file is sealed by a hash,
        a chain or a canonical form.
    before: what an attacker does after spoiling the file.
    beyond: changes that nothing in the file could show, given it before and after.
    share: of all inputs, in parts.
    """

    name: str
    files: Words
    ways: tuple[Mutation, ...]
    words: Words
    never_fine: bool = False
    before: Callable[[Path], object] | None = None
    share: int = 1
    beyond: Callable[[bytes, bytes], bool] = lambda before, after: before == after


def _rehash(folder: Path) -> None:
    rehash(folder / "out")


def _without_samples(folder: Path) -> None:
    """Else they would be taken as they are, and the synthesizer would not be opened."""
    shutil.rmtree(folder / "runs/out/samples")


def _lost_its_end(before: bytes, after: bytes) -> bool:
    """A chain shows that what is there is unbroken, not that its last lines are still there."""
    return before.startswith(after) and (not after or after.endswith(b"\n"))


def _other_title(before: bytes, after: bytes) -> bool:
    """The owner's own words: a title, a licence, the versions of packages.

    Who rewrites them and every hash goes unnoticed without the digest or a key.
    """
    try:
        one, other = (json.loads(data) for data in (before, after))
        return all(one[k] == other[k] for k in {*one, *other} - {"name", "license", "versions"})
    except (ValueError, TypeError, KeyError, RecursionError):
        lines = [
            line
            for data in (before, after)
            for line in data.split(b"\n")
            if not line.startswith((b"pretty_name", b"# ", b"license"))
        ]
        return lines[: len(lines) // 2] == lines[len(lines) // 2 :]


def _other_words_or_last_figures(before: bytes, after: bytes) -> bool:
    """As `_other_title`, or costs that agree as far as two machines do: they are computed again."""
    if _other_title(before, after):
        return True
    try:
        one, other = (json.loads(data) for data in (before, after))
        costs = zip(_take_costs(one), _take_costs(other), strict=True)
        alike = all(close(float(a), float(b)) for a, b in costs)
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError, OverflowError):
        return False
    return alike and one == other


def _take_costs(claim: dict[str, Any]) -> list[float]:
    """The figures of a claim that are computed from its ledger; they are taken out of it."""
    return [claim.pop("epsilon"), *(one.pop("epsilon_alone") for one in claim["spending"])]


VERIFY = ("verify", "out")
LOAD = ("evaluate", "out", "--test", "photos", "--protocol", "protocol.yaml", "--device", "cpu")
OF_RUN = ("evaluate", "--run", "runs/out", "--protocol", "protocol.yaml", "--device", "cpu")
RESUME = ("synthesize", "photos", *RUN, "--samples", "6", "-o", "out", "--resume")
SEALED = ("out/claim.json", "out/croissant.json")


def dry(source: str, *more: str) -> Words:
    return ("synthesize", source, *RUN, "-o", "new", "--dry-run", *more)


TARGETS: tuple[Target, ...] = (
    Target("release", ("out/**/*",), BYTES, VERIFY, never_fine=True, share=3),
    Target("release-json", ("out/*.json",), JSON, VERIFY, never_fine=True),
    Target("card", ("out/README.md",), TEXT, VERIFY, never_fine=True),
    Target("card-rehashed", ("out/README.md",), TEXT, VERIFY, True, _rehash, 2, _other_title),
    Target("ledger", ("out/ledger.jsonl",), JSON, VERIFY, never_fine=True),
    Target("ledger-rehashed", ("out/ledger.jsonl",), JSON, VERIFY, True, _rehash, 2),
    Target("claim-rehashed", SEALED, JSON, VERIFY, True, _rehash, 3, _other_words_or_last_figures),
    Target(
        "release-rehashed-digest-known",
        ("out/*.json*", "out/README.md", "out/data/*"),
        (*BYTES, *TEXT),
        (*VERIFY, "--digest", "{digest}"),
        True,
        _rehash,
    ),
    Target("table-rehashed", ("out/data/*",), BYTES, VERIFY, before=_rehash, share=2),
    Target("table-loaded", ("out/data/*", "out/claim.json"), BYTES, LOAD, share=2),
    Target("claim-loaded", ("out/claim.json",), JSON, LOAD),
    Target("images", ("formats/*/*",), BYTES, dry("formats", "--channels", "1"), share=3),
    Target("png", ("photos/*/*",), BYTES, LOAD),
    Target(
        "csv",
        ("listed/metadata.csv",),
        TEXT,
        dry("listed", "--label", "kind", "--unit", "person"),
        share=2,
    ),
    Target("jsonl", ("lined/metadata.jsonl",), JSON, dry("lined"), share=1),
    Target("parquet", ("table.parquet",), BYTES, dry("table.parquet"), share=2),
    Target("idx", ("idx/*",), BYTES, dry("idx")),
    Target("npz", ("data/breastmnist/*.npz",), BYTES, dry("breastmnist", "--size", "8")),
    Target("samples", ("runs/out/samples/*",), (*BYTES, *JSON), OF_RUN, share=2),
    Target("protocol", ("protocol.yaml",), TEXT, LOAD, share=3),
    Target("suite", ("suite.yaml",), TEXT, ("bench", "status", "suite.yaml"), share=2),
    Target("config", ("runs/out/config.yaml",), TEXT, OF_RUN, share=2),
    Target("run-files", ("runs/out/*.json*",), JSON, OF_RUN, share=2),
    Target("run-ledger", ("runs/out/ledger.jsonl",), JSON, OF_RUN, never_fine=True),
    Target("resumed", ("runs/out/*.json*", "runs/out/checkpoints/*/*"), (*JSON, *BYTES), RESUME),
    Target(
        "synthesizer",
        ("runs/out/synthesizer.json", "runs/out/synthesizer/*"),
        (*BYTES, *JSON),
        RESUME,
        before=_without_samples,
    ),
    Target(
        "book",
        ("home/books/*.jsonl",),
        JSON,
        ("spent", "fuzzed"),
        never_fine=True,
        share=2,
        beyond=_lost_its_end,
    ),
    Target("split-key", ("home/books/*.split-key",), BYTES, OF_RUN, never_fine=True),
)


def command(target: Target, scene: Scene) -> Words:
    return tuple(word.format(digest=scene.digest) if "{" in word else word for word in target.words)
