"""The files around the code agree with it: version, citation, hooks, picture."""

from __future__ import annotations

import re
import tomllib

import yaml

import understudy
from tests.docs.pages import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def test_one_version_everywhere() -> None:
    changes = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert PROJECT["version"] == understudy.__version__ == citation["version"]
    released, _, developing = understudy.__version__.partition(".dev")
    assert (f"## [{released}]" in changes) == (not developing), "a version is listed once it is cut"
    assert changes.index("## [Unreleased]") < changes.index("## [0.1.0]")
    assert f"{understudy.__version__} until then" in changes or not developing


def test_the_citation_has_what_the_format_requires() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["license"] == PROJECT["license"] == "Apache-2.0"


def test_hooks_are_local() -> None:
    """A hook that is fetched from elsewhere would not run offline, or be ours to vouch for."""
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    assert [hook["id"] for hook in hooks] == ["ruff-check", "ruff-format", "mypy"]
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)


def test_the_picture_is_small_and_shown() -> None:
    picture = REPOSITORY / "docs" / "images" / "report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 300_000
    assert re.search(r"!\[[^\]]+\]\(docs/images/report\.png\)", _readme())


def test_the_readme_shows_the_two_commands_first() -> None:
    assert _readme().index("make demo") < _readme().index("## ") or "make demo" in _readme()
    assert "make test" in _readme()


def _readme() -> str:
    return (REPOSITORY / "README.md").read_text(encoding="utf-8")
