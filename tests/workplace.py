"""A folder in which commands run as a user would run them, and what they leave there."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from understudy.cli.main import run
from understudy.evaluation.protocol import load_protocol

SMALL_MERF = (
    *("--method", "dp-merf", "--preset", "default", "--set", "steps=3", "--set", "features=40"),
    *("--set", "width=16", "--set", "latent=4", "--set", "batch=20", "--samples", "30"),
)
"""A DP-MERF that says nothing of the data but passes through every step of a run. A preset by name,
so that no settings are tried out, and nothing is said of them."""

SMALL_GAN = (
    *("--method", "dp-gan", "--preset", "default"),
    *("--set", "batch=8", "--set", "width=8", "--set", "latent=4"),
    *("--set", "discriminator_width=4", "--set", "discriminator_features=8"),
    *("--set", "generator_batch=8", "--samples", "30"),
)
"""The same for DP-GAN; the number of steps is left to the test."""


@dataclass(frozen=True)
class Outcome:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as one JSON object: nothing else may be there."""
        return json.loads(self.out)

    def succeeded(self) -> Outcome:
        assert self.code == 0, self.err
        return self

    def refused(self, *words: str) -> Outcome:
        """One sentence on standard error that names each of these; exit code 2."""
        assert self.code == 2, (self.out, self.err)
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1, self.err
        assert self.err.rstrip("\n").endswith((".", "?")), self.err
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, self.err
        return self


class Workplace:
    """A working folder with an account book beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def run(self, *words: str | Path, screen: io.StringIO | None = None) -> Outcome:
        """One command, in this process, with this folder as the working folder.

        screen: what stands for standard error; a terminal, say.
        """
        out, err = io.StringIO(), screen or io.StringIO()
        with (
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, self.environment),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = run([str(word) for word in words])
        return Outcome(code, out.getvalue(), err.getvalue())

    @property
    def environment(self) -> dict[str, str]:
        return {"UNDERSTUDY_HOME": str(self.home)}

    def quick_protocol(self) -> str:
        """A protocol file that measures one thing in no time."""
        chosen = load_protocol("reduced").changed(
            {
                "metrics": ["gen2real"],
                "classifiers": ["mlp"],
                "seeds": 1,
                "training": {"epochs": 1, "least_steps": 5},
            }
        )
        path = self.folder / "quick.yaml"
        path.write_text(yaml.safe_dump(chosen.to_json()))
        return str(path)

    def tree(self) -> set[str]:
        """Every file and folder here but the account books."""
        paths = (p.relative_to(self.folder) for p in self.folder.rglob("*"))
        return {str(p) for p in paths if p.parts[0] != self.home.name}

    def book(self, kind: str) -> list[dict[str, Any]]:
        """The bodies of all entries of one kind, over all books."""
        lines = [
            json.loads(line)
            for path in sorted(self.home.rglob("*.jsonl"))
            for line in path.read_text().splitlines()
        ]
        return [line["body"] for line in lines if line["kind"] == kind]
