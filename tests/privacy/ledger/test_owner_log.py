"""The owner's figures: written once, whole lines, after the block was committed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from understudy.privacy.ledger.owner_log import OwnerLog, read_owner_log


def unreadable() -> torch.Tensor:
    """A number that cannot be read, as on a GPU that failed."""
    return torch.empty((), device="meta")


def test_rows_reach_the_file_when_the_block_is_kept(tmp_path: Path) -> None:
    log = OwnerLog(tmp_path / "owner.jsonl")
    log.note({"step": 1, "loss": torch.tensor(0.5)})
    assert not (tmp_path / "owner.jsonl").exists()
    log.keep()
    log.keep()
    log.note({"step": 2})
    log.drop()
    log.keep()
    assert list(read_owner_log(tmp_path / "owner.jsonl")) == [{"step": 1, "loss": 0.5}]


def test_a_figure_that_cannot_be_read_leaves_no_half_of_its_block(tmp_path: Path) -> None:
    log = OwnerLog(tmp_path / "owner.jsonl")
    log.note({"step": 1})
    log.note({"step": 2, "loss": unreadable()})
    with pytest.raises(RuntimeError):
        log.keep()
    log.note({"step": 3})
    log.keep()
    assert list(read_owner_log(tmp_path / "owner.jsonl")) == [{"step": 3}]


def test_numbers_that_are_not_finite_are_valid_json_and_read_back(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    log = OwnerLog(tmp_path / "owner.jsonl")
    log.note({"loss": torch.tensor(float("nan")), "most": float("inf"), "units": 0})
    log.keep()
    json.loads((tmp_path / "owner.jsonl").read_text(), parse_constant=refuse)
    (row,) = read_owner_log(tmp_path / "owner.jsonl")
    assert math.isnan(float(row["loss"]))
    assert float(row["most"]) == math.inf
    assert row["units"] == 0
