"""Names that lead to the same data: of the catalog, of the Hub, of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.data.catalog import DATA_VARIABLE, catalog
from understudy.data.same_source import lead_to_the_same


@pytest.fixture
def mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    (tmp_path / "mnist").mkdir()
    return tmp_path / "mnist"


def both_ways(first: str, second: str) -> bool:
    found = {lead_to_the_same(first, second), lead_to_the_same(second, first)}
    assert len(found) == 1
    return found.pop()


def test_a_catalog_name_is_its_folder_and_its_hub_name(mnist: Path) -> None:
    hub = catalog()["mnist"].hub
    assert hub is not None
    for name in ("mnist", str(mnist), f"{mnist}/", str(mnist.parent), f"hf:{hub}", f"hf:{hub}:x"):
        assert both_ways("mnist", name), name
    assert both_ways(f"hf:{hub}", f"hf:{hub.upper()}")


def test_other_data_are_other_data(mnist: Path, tmp_path: Path) -> None:
    (tmp_path / "mnist-2").mkdir()
    for name in ("fashion-mnist", "digits", str(tmp_path / "mnist-2"), "hf:some/other"):
        assert not both_ways("mnist", name), name
    assert not both_ways(str(mnist), str(tmp_path / "mnist-2"))


def test_a_folder_that_is_written_as_a_path_is_no_catalog_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert not both_ways("digits", "./digits")
    assert both_ways(str(tmp_path / "digits"), "./digits")
