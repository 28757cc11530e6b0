"""The claims page and the methods page say what the package does, rule by rule."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.docs.claims_page import PAGE, page, promises
from tests.docs.pages import REPOSITORY
from tests.mutants.faults import all_faults
from understudy.methods.presets import find_presets
from understudy.methods.registry import Registry
from understudy.plugins import BUILT_IN
from understudy.release.claim import KINDS

CLAIMS = (REPOSITORY / "docs" / "claims.md").read_text(encoding="utf-8")
METHODS = " ".join((REPOSITORY / "docs" / "methods.md").read_text(encoding="utf-8").split())
EDGES = (REPOSITORY / "docs" / "sharp-edges.md").read_text(encoding="utf-8")
SEVERITIES = ("Critical", "Serious", "Theoretical", "Minor")


def test_the_page_is_what_its_source_prints() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.claims_page"


def test_every_promise_is_proved_by_faults_and_every_fault_proves_one() -> None:
    assert [p.title for p in promises() if not (p.faults and p.tests and p.assumes)] == []
    named = [name for promise in promises() for name in promise.faults]
    assert sorted(named) == sorted(fault.name for fault in all_faults())


def named_tests() -> list[str]:
    promised = [test for promise in promises() for test in promise.tests]
    return sorted({*promised, *(fault.test for fault in all_faults())})


@cache
def defined_in(file: str) -> frozenset[str]:
    """What a test file defines: `test_name`, `Class` and `Class::test_name`."""
    found = set()
    for node in ast.parse((REPOSITORY / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            bases = [b.id for b in node.bases if isinstance(b, ast.Name)]
            inner = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            found |= {f"{node.name}::{name}" for name in inner}
            inherited = {f for f in found for b in bases if f.startswith(f"{b}::")}
            found |= {f"{node.name}::{f.partition('::')[2]}" for f in inherited}
    return frozenset(found)


def test_every_named_test_exists() -> None:
    missing = []
    for test in named_tests():
        file, _, name = test.partition("[")[0].partition("::")
        if not (REPOSITORY / file).is_file() or (name and name not in defined_in(file)):
            missing.append(test)
    assert missing == []


def test_a_test_that_does_not_exist_would_be_seen() -> None:
    assert "test_every_named_test_exists" in defined_in("tests/docs/test_claims_page.py")
    assert "test_nothing_of_the_kind" not in defined_in("tests/docs/test_claims_page.py")
    with pytest.raises(FileNotFoundError):
        defined_in("tests/docs/test_nowhere.py")


def test_each_of_the_ten_rules_names_a_test_that_locks_it() -> None:
    sections = re.split(r"^### Rule (\d+)", CLAIMS, flags=re.MULTILINE)[1:]
    rules = dict(zip(sections[::2], sections[1::2], strict=True))
    assert list(rules) == [str(number) for number in range(1, 11)]
    for number, text in rules.items():
        own = re.split(r"^##+ ", text, flags=re.MULTILINE)[0]
        assert re.search(r"`tests/[\w/]+\.py", own), f"rule {number} names no test"


def test_every_kind_of_claim_is_explained() -> None:
    for kind in KINDS:
        assert f"**{kind.capitalize()}**" in CLAIMS


def test_every_sharp_edge_has_a_severity_and_stands_in_the_table() -> None:
    edges = re.findall(r"^## (.+)\n\n\*\*(\w+)\.\*\*", EDGES, flags=re.MULTILINE)
    headings = re.findall(r"^## (.+)$", EDGES, flags=re.MULTILINE)
    assert len(edges) >= 20
    assert [heading for heading, _ in edges] == headings
    for heading, severity in edges:
        assert severity in SEVERITIES
        assert re.search(rf"^\| \[{re.escape(heading)}\]\(#.+\) \| {severity} \|", EDGES, re.M)


def test_the_methods_page_tells_what_was_changed_for_soundness() -> None:
    for entry in Registry.discover():
        if entry.source == BUILT_IN:
            info = Registry.discover().get(entry.name).info
            assert f"`{info.name}`" in METHODS
            assert [c for c in info.changed_for_soundness if c not in METHODS] == [], info.name


def test_the_methods_page_tells_what_presets_were_tuned_on() -> None:
    text = (REPOSITORY / "docs" / "methods.md").read_text(encoding="utf-8")
    shown = "\n".join(re.findall(r"^\| `[\w-]+` \| .+$", text.partition("## Presets")[2], re.M))
    assert shown == presets_table(), f"docs/methods.md must list\n{presets_table()}"


def presets_table() -> str:
    """Every preset that ships here, as the page must list it."""
    rows = []
    for entry in Registry.discover():
        if entry.source == BUILT_IN:
            presets = find_presets(Registry.discover().get(entry.name))
            for one in presets.entries:
                layered = presets.choose(one.dataset, one.epsilon_at_least or None)
                covered = "no" if layered.tuned_on_itself else "yes"
                if one.dataset != "check":
                    cells = (f"`{entry.name}`", one.name, one.tuned_on, covered)
                    rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
