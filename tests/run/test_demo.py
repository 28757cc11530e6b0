"""The demo, with networks too small to learn: everything it makes and says."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import understudy.run.demo
from tests.workplace import Workplace
from understudy.evaluation.protocol import load_protocol
from understudy.release.verify import verify
from understudy.run.config import RunConfig

SMALL = {
    "dp-merf": ("steps=3", "features=40", "features_per_step=40", "width=16", "batch=20"),
    "dp-gan": ("steps=3", "batch=16", "width=8", "discriminator_width=4", "generator_batch=8"),
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workplace, str]:
    place = Workplace(tmp_path_factory.mktemp("demo"))

    def small(**settings: Any) -> RunConfig:
        return RunConfig(**settings, changes=SMALL[settings["method"]], samples=100)

    protocol = load_protocol("reduced").changed({"seeds": 1, "metrics": ["gen2real"]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(understudy.run.demo, "RunConfig", small)
        patch.setattr(understudy.run.demo, "load_protocol", partial(_always, protocol))
        said = place.run("demo", "-o", "show").succeeded()
    return place, said.out


def _always(answer: Any, name: str) -> Any:
    assert name == "reduced"
    return answer


def test_both_methods_are_released_and_verified(shown: tuple[Workplace, str]) -> None:
    place, said = shown
    for method in ("dp-merf", "dp-gan"):
        found = verify(place / f"show/releases/{method}")
        assert found.ok
        assert found.claim is not None
        assert 9.9 <= found.claim.epsilon <= 10.0
        assert f"{method}: consistent and authenticated" in said
        assert (place / f"show/runs/{method}/report.html").is_file()
        assert f"report    show/runs/{method}/report.html" in said


def test_the_table_and_the_composed_total_are_printed(shown: tuple[Workplace, str]) -> None:
    _, said = shown
    assert "trained on synthetic, tested on real" in said
    assert "gen2real accuracy, cnn" in said
    assert "reduced protocol" in said
    total = next(line for line in said.splitlines() if line.startswith("Released: epsilon"))
    assert 11 < float(total.split()[2]) < 20, "two releases cost more than one, less than the sum"


def test_the_owners_own_book_is_left_alone(shown: tuple[Workplace, str]) -> None:
    place, _ = shown
    assert not place.home.exists()
    assert list((place / "show/book").rglob("*.jsonl"))


def test_a_demo_is_not_written_over(shown: tuple[Workplace, str]) -> None:
    place, _ = shown
    place.run("demo", "-o", "show").refused("show")
