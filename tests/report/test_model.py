from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import get_type_hints

import numpy as np
import pytest

from tests.report.examples import central_claim, digit_samples, example_data, gan_ledger
from understudy.errors import UserError
from understudy.report.model import Curve, OwnerData, ReportData


def test_a_claim_of_another_format_is_refused() -> None:
    claim = {**central_claim(gan_ledger()), "format": "understudy-claim/9"}
    with pytest.raises(UserError, match="understudy-claim/9"):
        ReportData(title="t", claim=claim)


def test_a_claim_without_epsilon_is_refused_by_name() -> None:
    claim = central_claim(gan_ledger())
    del claim["epsilon"]
    with pytest.raises(UserError, match="lacks epsilon"):
        ReportData(title="t", claim=claim)


def test_samples_that_belong_to_units_are_taken_for_real_records_and_refused() -> None:
    samples = digit_samples()
    with pytest.raises(UserError, match="look like real"):
        replace(example_data(), samples=replace(samples, units=np.arange(len(samples))))
    with pytest.raises(UserError, match="look like real"):
        OwnerData(own_samples=replace(samples, units=np.arange(len(samples))))
    assert replace(example_data(), samples=samples).samples is samples


def test_metrics_of_another_format_are_refused() -> None:
    with pytest.raises(UserError, match="metrics has format None"):
        OwnerData(metrics={"rows": []})


def test_a_curve_needs_as_many_x_as_y() -> None:
    with pytest.raises(UserError, match="'loss' has 2 x values and 1 y values"):
        Curve("loss", [1.0, 2.0], [1.0])


def test_public_data_has_no_field_that_the_owner_type_has() -> None:
    public, owner = ({f.name for f in fields(t)} for t in (ReportData, OwnerData))
    assert not public & owner
    assert not any(t in (OwnerData, Curve) for t in get_type_hints(ReportData).values())


def test_report_data_cannot_be_given_more_later() -> None:
    with pytest.raises(FrozenInstanceError):
        example_data().title = "other"  # type: ignore[misc]
