from __future__ import annotations

from dataclasses import replace

from tests.report.examples import (
    central_claim,
    example_data,
    example_metrics,
    example_owner,
    gan_ledger,
)
from tests.report.page import Page, both, empirical_data
from understudy.report.model import OwnerData, ReportData
from understudy.report.render import render_owner, render_public


def test_the_claim_stands_in_words_with_its_figures() -> None:
    for html in both(example_data()):
        text = Page(html).text
        assert "Central differential privacy with epsilon 9.988" in text
        assert "10⁻⁵" in text
        assert "per image, not per person" in text
        assert "add-or-remove one unit" in text
        assert "What this means" in text
        assert "What it does not mean" in text
        assert "at most 99.996%" in text
        assert "the declared number of images, 1,438" in text
        assert "It does not cover how the settings were chosen" in text


def test_method_settings_versions_and_verification_are_there() -> None:
    for html in both(example_data()):
        text = Page(html).text
        assert "arXiv:1802.06739" in text
        assert "Batches are Poisson samples" in text
        assert "config.learning_rate" in text
        assert "understudy verify FOLDER --digest b5d4045c3f46" in text
        assert example_data().claim["ledger"]["head"] in text
        assert "torch 2.11.0" in text


def test_spending_is_shown() -> None:
    for html in both(example_data()):
        text = Page(html).text
        assert "600 of 600 steps" in text
        assert "budget 10" in text
        assert "97%" in text


def test_what_happened_block_by_block_is_the_owner_s_alone() -> None:
    public, owner = (Page(html).text for html in both(example_data()))
    assert "void: the process died" in owner
    assert "block by block" in owner
    assert "void" not in public
    assert "block by block" not in public


def test_failed_rows_are_seen_with_their_reason() -> None:
    text = Page(render_owner(example_data(), example_owner())).text
    assert "1 of 7 measurements failed" in text
    assert "failed the classifier saw only one class" in text


def test_the_protocol_s_stamp_is_prominent() -> None:
    page = Page(render_owner(example_data(), example_owner()))
    assert "reduced protocol fewer epochs and seeds than the standard" in page.text
    assert any(a.get("class") == "stamp" for a in page.all("p"))


def test_an_empirical_claim_says_so_and_never_shows_a_bound() -> None:
    for html in both(empirical_data()):
        text = Page(html).text
        assert "No formal guarantee" in text
        assert "epsilon ε infinite" in text
        assert "It is not differential privacy" in text
        assert "coin toss" not in text
        assert "at most" not in text
        assert "No formal guarantee covers them." in text


def test_a_local_claim_speaks_of_two_records() -> None:
    claim = {**central_claim(gan_ledger()), "kind": "local", "relation": "replace one record"}
    text = Page(render_public(replace(example_data(), claim=claim))).text
    assert "which of two images a released one was made from" in text
    assert "replace one record" in text


def test_a_run_with_a_fixed_noise_seed_is_marked() -> None:
    claim = central_claim(gan_ledger())
    assert "Not releasable" not in render_public(example_data())
    claim["randomness"] = {**claim["randomness"], "insecure_seed": True}
    assert "Not releasable" in render_public(replace(example_data(), claim=claim))


def test_a_claim_that_its_ledger_contradicts_is_marked() -> None:
    claim = central_claim(gan_ledger())
    assert "disagree" not in render_public(example_data())
    claim["spending"][1]["spent"] = 7
    assert "The claim and the ledger disagree" in render_public(
        replace(example_data(), claim=claim)
    )


def test_empty_and_missing_figures_are_said_to_be_so() -> None:
    bare = Page(render_owner(example_data(), OwnerData())).text
    assert "Nothing was evaluated." in bare
    assert "No times were recorded." in bare
    empty = OwnerData(metrics={**example_metrics(), "rows": []})
    assert "The evaluation has no rows." in Page(render_owner(example_data(), empty)).text


def test_a_report_without_ledger_samples_or_settings_still_stands() -> None:
    data = ReportData(title="t", claim=central_claim(gan_ledger()))
    text = Page(render_public(data)).text
    assert "No ledger came with this report" in Page(render_owner(data, OwnerData())).text
    assert "No pictures are shown" in text
    assert "Printed when the release is written" in text
    assert "batch" in text  # the method's own configuration stands in for settings


def test_pictures_for_the_owner_alone_are_in_the_owners_report_alone() -> None:
    data = replace(example_data(), samples=None)
    kept = OwnerData(own_samples=example_data().samples)
    assert "data:image/png" in render_owner(data, kept)
    assert "data:image/png" not in render_public(data)
    assert "data:image/png" not in render_owner(data, OwnerData())
    assert "data:image/png" in render_owner(example_data(), OwnerData())
