"""Several processes take the steps that one would take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.privacy.rig import kinds, records
from tests.privacy.team import team_target
from tests.privacy.team.teams import run_processes
from understudy.privacy.team.team import Team

PEOPLE = ["ann"] * 5 + ["bob"] + ["cy"] * 4 + ["di"] * 2 + ["ed"]


def run_team(folder: Path, size: int) -> list[dict[str, np.ndarray]]:
    """The weights that each process of a team ends with."""
    folder.mkdir()
    assert run_processes(size, team_target.main, folder) == [0] * size
    return [dict(np.load(folder / f"rank-{rank}.npz")) for rank in range(size)]


def test_two_processes_take_the_steps_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same units join; noise would show if each process added its own."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    (tmp_path / "one").mkdir()
    team_target.main(tmp_path / "one")
    alone = np.load(tmp_path / "one" / "rank-0.npz")
    first, second = run_team(tmp_path / "two", 2)
    for name in alone:
        assert np.array_equal(first[name], second[name])
        scale = np.linalg.norm(alone[name])
        assert np.linalg.norm(first[name] - alone[name]) <= 1e-6 * scale, "other steps than one's"
    assert kinds(tmp_path / "one" / "run") == kinds(tmp_path / "two" / "run")


@pytest.mark.parametrize("people", [None, PEOPLE])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_unit_is_whole_with_one_process(size: int, people: list[str] | None) -> None:
    data = records(13, units=people)
    shards = [Team(rank, size).shard(data) for rank in range(size)]
    assert sum(len(shard) for shard in shards) == 13
    together = np.concatenate([shard.features for shard in shards])
    assert {image.tobytes() for image in together} == {i.tobytes() for i in data.features}
    if people is not None:
        names = [set(np.asarray(shard.units)) for shard in shards]
        assert sum(len(some) for some in names) == len(set(people))
