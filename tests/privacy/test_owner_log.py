"""The owner's figures: written once, whole lines, after the block was committed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from understudy.privacy.owner_log import OwnerLog, read_owner_log


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
