from __future__ import annotations

import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from tests.report.examples import (
    central_claim,
    digit_samples,
    example_data,
    example_metrics,
    example_owner,
    gan_ledger,
)
from tests.report.page import Page, both, empirical_data
from understudy.data.schema import Attribute, Schema
from understudy.report import render
from understudy.report.model import Curve, OwnerData, ReportData
from understudy.report.render import render_public, write_reports


@pytest.mark.parametrize("data", [example_data(), empirical_data()], ids=["central", "empirical"])
def test_pages_are_whole_and_load_nothing(data: ReportData) -> None:
    for html in both(data):
        page = Page(html)
        assert page.open == []
        assert not {"script", "iframe", "object", "embed", "base", "form"} & {
            tag for tag, _ in page.elements
        }
        for _, attributes in page.elements:
            for name in ("src", "href", "srcset", "xlink:href", "action", "poster"):
                assert attributes.get(name, "#").startswith(("#", "data:"))
            assert not any(name.startswith("on") for name in attributes)
        style = html[html.index("<style>") : html.index("</style>")]
        assert "url(" not in style
        assert "@import" not in style
        policy = next(m for m in page.all("meta") if "http-equiv" in m)["content"]
        assert "default-src 'none'" in policy
        assert "script" not in policy


def test_the_owner_s_banner_is_on_the_owner_s_copy_only() -> None:
    public, owner = (Page(html).text for html in both(example_data()))
    banner = "Owner's copy: contains figures computed from real data; do not share."
    assert banner in owner
    assert "Owner's" not in public
    assert "Shareable copy." in public


def planted_owner() -> tuple[OwnerData, list[str]]:
    """An owner's data in which every value is a word or number found nowhere else."""
    row = {
        **example_metrics()["rows"][0],
        "metric": "plantedmetric",
        "variant": "plantedvariant",
        "value": 0.73519,
        "low": 0.735185,
        "high": 0.735195,
        "reference": 0.918273,
        "chance": 0.135791,
    }
    failed = {**row, "status": "failed", "reason": "plantedreason", "metric": "plantedfailure"}
    metrics = {
        "format": "understudy-metrics/1",
        "protocol": {
            "name": "plantedprotocol",
            "stamp": "plantedstamp",
            "plantedkey": "plantedset",
        },
        "dataset": "planteddataset",
        "synthetic_count": 86_421,
        "rows": [row, failed],
    }
    owner = OwnerData(
        metrics=metrics,
        curves=(Curve("plantedcurve", [0, 1], [0.1, 0.2], "plantedx", "plantedy"),),
        timings={"plantedphase": 83.0},
        counts={"plantedcount": 97_531},
        warnings=("plantedwarning",),
        notes=("plantednote",),
        hardware={"plantedmachine": "plantedgpu"},
    )
    endings = (
        "metric variant reason failure protocol stamp key set dataset curve x y phase count "
        "warning note machine gpu"
    )
    words = [f"planted{ending}" for ending in endings.split(" ")]
    return owner, [*words, "0.735190", "0.918273", "0.135791", "86,421", "97,531", "1 min 23 s"]


def test_nothing_of_the_owner_s_reaches_the_public_file(tmp_path: Path) -> None:
    owner, planted = planted_owner()
    owner_path, public_path = write_reports(tmp_path, example_data(), owner)
    owner_html, public_html = owner_path.read_text("utf-8"), public_path.read_text("utf-8")
    for word in planted:
        assert word in owner_html, f"{word} should be on the owner's page"
        assert word not in public_html
    assert "planted" not in public_html


def test_the_public_renderer_takes_public_data_alone() -> None:
    parameters = inspect.signature(render_public).parameters
    assert [p.annotation for p in parameters.values()] == ["ReportData"]


@pytest.mark.parametrize("name", ["results", "curves", "timings", "counts", "warnings", "hardware"])
def test_a_public_template_that_asks_for_owner_s_data_fails(name: str) -> None:
    context = render._public_context(example_data())
    template = render._environment().from_string("{{ " + name + " }}")
    with pytest.raises(UndefinedError, match=name):
        template.render(context)


def test_strange_keys_of_claim_and_ledger_are_not_shown() -> None:
    ledger = [{**entry, "time": "plantedtime"} for entry in gan_ledger()]
    claim = {**central_claim(gan_ledger()), "accuracy": "plantedaccuracy"}
    for html in both(replace(example_data(), claim=claim, ledger=ledger)):
        assert "planted" not in html


HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'{{7*7}}\u202e\x00"


def hostile_data() -> ReportData:
    def poisoned(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: poisoned(v) for k, v in value.items()}
        if isinstance(value, list):
            return [poisoned(v) for v in value]
        return value + HOSTILE if isinstance(value, str) else value

    data = example_data()
    claim = poisoned(dict(data.claim))
    kept = {k: data.claim[k] for k in ("format", "kind", "ledger")}
    samples = digit_samples()
    schema = Schema((Attribute("digit", tuple(f"{c}{HOSTILE}" for c in range(10))),), label="digit")
    return ReportData(
        title=HOSTILE,
        claim={**claim, **kept},
        ledger=data.ledger,
        samples=samples.with_schema(schema),
        settings={HOSTILE: HOSTILE},
        digest=HOSTILE,
    )


def test_hostile_names_stay_text() -> None:
    metrics = example_metrics()
    for row in metrics["rows"]:
        row.update(metric=HOSTILE, variant=HOSTILE, unit=HOSTILE, reason=HOSTILE)
    owner = OwnerData(
        metrics={**metrics, "dataset": HOSTILE},
        curves=(Curve(HOSTILE, [0, 1], [0, 1], HOSTILE, HOSTILE),),
        timings={HOSTILE: 1.0},
        counts={HOSTILE: 1},
        warnings=(HOSTILE,),
        notes=(HOSTILE,),
        hardware={HOSTILE: HOSTILE},
    )
    for html in both(hostile_data(), owner):
        page = Page(html)
        assert page.open == []
        assert not {"script", "img"} & {tag for tag, _ in page.elements}
        assert not any(n.startswith("on") for _, a in page.elements for n in a)
        assert "<script>alert(1)</script>" in page.text
        assert "{{7*7}}" in page.text
        assert "\x00" not in html
        assert "\u202e" not in html


def test_a_lone_surrogate_in_a_name_can_be_written(tmp_path: Path) -> None:
    write_reports(tmp_path, replace(example_data(), title="bad \udcff name"), OwnerData())
    assert "bad ? name" in (tmp_path / "report.html").read_text("utf-8")


def test_reports_are_replaced_whole_and_leave_nothing_beside_them(tmp_path: Path) -> None:
    paths = write_reports(tmp_path, example_data(), example_owner())
    assert [p.name for p in paths] == ["report.html", "report-public.html"]
    write_reports(tmp_path, replace(example_data(), title="second"), example_owner())
    assert "second" in paths[1].read_text("utf-8")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report-public.html", "report.html"]


def _no_space(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_old_report_and_no_scraps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_reports(tmp_path, example_data(), example_owner())
    before = (tmp_path / "report.html").read_bytes()
    monkeypatch.setattr(os, "fsync", _no_space)
    with pytest.raises(OSError, match="No space"):
        write_reports(tmp_path, replace(example_data(), title="second"), example_owner())
    assert (tmp_path / "report.html").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report-public.html", "report.html"]
