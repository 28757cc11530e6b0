"""Metrics by name: built in, from an installed package, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.pages import REPOSITORY, blocks
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation.evaluate import evaluate
from understudy.evaluation.extractors.extractor import load_extractor
from understudy.evaluation.fidelity import Density
from understudy.evaluation.metric_registry import (
    CLASSIFYING_EXTRACTORS,
    EXTRACTORS,
    METRICS,
    metric_class,
    metric_targets,
    only_attacks,
)
from understudy.evaluation.protocol import Protocol, load_protocol

WRONG = """
class Silent(Metric):
    name = "silent"
    direction = "none"
    def measure(self, case): ...

def function(): ...
"""


def metric_of_the_guide() -> str:
    guide = REPOSITORY / "docs" / "guide.md"
    (block,) = (block for block in blocks(guide) if block.words == "brightness.py")
    return block.text


def install(folder: Path, name: str, entry_points: str) -> None:
    """A third-party distribution, as an installer would leave it on the path."""
    (folder / f"{name}.py").write_text(metric_of_the_guide() + WRONG)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[understudy.metrics]\n{entry_points}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("brightpack", "otherpack"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_an_installed_metric_is_a_row_like_any_other(
    site: Path, train: Records, test_part: Records, quick: Protocol
) -> None:
    install(site, "brightpack", "brightness = brightpack:Brightness")
    protocol = replace(quick, metrics=("brightness",))
    (row,) = evaluate(train, None, test_part, protocol, device="cpu").rows
    assert (row.metric, row.status, row.unit) == ("brightness", "ok", "grey level")
    assert row.value == pytest.approx(float(train.features.mean()), rel=0.1)


def test_a_name_that_is_taken_is_refused(site: Path) -> None:
    install(site, "brightpack", "density = brightpack:Brightness")
    with pytest.raises(UserError, match=r"'density' of brightpack .*same name as understudy\."):
        metric_targets()


def test_two_packages_cannot_share_a_name(site: Path) -> None:
    install(site, "brightpack", "brightness = brightpack:Brightness")
    install(site, "otherpack", "brightness = otherpack:Brightness")
    with pytest.raises(UserError, match=r"same name as (brightpack|otherpack):Brightness"):
        metric_class("brightness")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("brightpack:Brigthness", "cannot be had from brightpack:Brigthness"),
        ("no_such_module_here:Metric", "cannot be had from no_such_module_here"),
        ("brightpack:function", "must be a class derived from Metric"),
        ("brightpack:Silent", "does not declare bounds, unit, needs"),
    ],
)
def test_what_is_no_metric_is_refused(site: Path, target: str, message: str) -> None:
    install(site, "brightpack", f"mine = {target}")
    with pytest.raises(UserError, match=message):
        metric_class("mine")


def test_a_wrong_name_is_answered_with_the_nearest(site: Path) -> None:
    install(site, "brightpack", "brightness = brightpack:Brightness")
    with pytest.raises(UserError, match=r"no metric 'brightnes'; did you mean brightness\?"):
        metric_class("brightnes")


def test_built_in_metrics_are_themselves() -> None:
    assert metric_class("density") is Density
    assert all(metric_class(name).name for name in METRICS)


def test_the_reference_lists_every_metric_with_its_direction() -> None:
    page = REPOSITORY / "docs" / "reference.md"
    section = page.read_text(encoding="utf-8").partition("## Metrics")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([a-z0-9-]+)` \|[^|]*\| (\w+) \|", section, re.MULTILINE)
    words = {"none": "neither"}
    assert dict(listed) == {
        name: words.get(metric_class(name).direction, metric_class(name).direction)
        for name in METRICS
    }


def test_listing_metrics_imports_no_torch() -> None:
    code = (
        "import sys\n"
        "from understudy.evaluation.metric_registry import metric_targets\n"
        "assert 'density' in metric_targets()\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.data
@pytest.mark.parametrize("name", sorted(set(EXTRACTORS) - {"inception-v3"}))
def test_extractors_that_are_said_to_classify_do(name: str) -> None:
    try:
        extractor = load_extractor(name)
    except UserError as error:
        pytest.skip(str(error))
    assert (extractor.head is not None) == (name in CLASSIFYING_EXTRACTORS)


def test_a_protocol_without_metrics_is_no_attack() -> None:
    assert only_attacks(load_protocol("leakage").metrics)
    assert not only_attacks([*load_protocol("leakage").metrics, "gen2real"])
    assert not only_attacks([])
