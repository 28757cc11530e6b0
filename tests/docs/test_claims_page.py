"""The claims page and the methods page say what the package does, rule by rule."""

from __future__ import annotations

import re

from tests.docs.pages import REPOSITORY
from understudy.methods.presets import find_presets
from understudy.methods.registry import BUILT_IN, Registry
from understudy.release.claim import KINDS

CLAIMS = (REPOSITORY / "docs" / "claims.md").read_text(encoding="utf-8")
METHODS = " ".join((REPOSITORY / "docs" / "methods.md").read_text(encoding="utf-8").split())
EDGES = (REPOSITORY / "docs" / "sharp-edges.md").read_text(encoding="utf-8")
SEVERITIES = ("Critical", "Serious", "Theoretical", "Minor")


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
