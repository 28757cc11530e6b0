"""What may be done with data follows from where they lie, under whatever name they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.data.catalog import DATA_VARIABLE, catalog_entry
from understudy.data.terms import (
    OWNERS,
    licence_of_models,
    pictures_may_be_shown,
    terms_of,
)


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("utkface", "mnist"):
        (tmp_path / "shelf" / name).mkdir(parents=True)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "shelf"))
    return tmp_path / "shelf"


def test_the_files_of_a_catalog_set_keep_its_terms_under_any_name(shelf: Path) -> None:
    faces = catalog_entry("utkface").terms
    (shelf.parent / "photos").symlink_to(shelf / "utkface")
    for source in (
        "utkface",
        str(shelf / "utkface"),
        str(shelf / "mnist" / ".." / "utkface"),
        str(shelf.parent / "photos"),
        str(shelf / "utkface" / "UTKFace"),
    ):
        assert terms_of(source) == faces
    assert terms_of("hf:UofT-CS/cifar100:default") == catalog_entry("cifar-100").terms


def test_a_folder_above_several_has_the_strictest(shelf: Path) -> None:
    assert not terms_of(str(shelf)).pictures_shown


def test_what_an_owner_brings_is_the_owners(tmp_path: Path) -> None:
    assert terms_of(str(tmp_path / "own")) == OWNERS
    assert pictures_may_be_shown([str(tmp_path / "own"), "digits", "hf:owner/name"])


@pytest.mark.parametrize("name", ["utkface", "fairface", "celeba"])
def test_one_source_of_many_is_enough_to_forbid(name: str) -> None:
    assert not pictures_may_be_shown(["mnist", name])
    assert not terms_of(name).models_shipped
    assert pictures_may_be_shown(["mnist", "digits"])
    assert terms_of("mnist").models_shipped


def test_the_licence_of_a_model_says_that_it_stays() -> None:
    licence = str(licence_of_models("utkface", "non-commercial research only"))
    assert licence.startswith("non-commercial research only; a model of it is not to be handed on")
    assert "real people" in licence
    assert str(licence_of_models("utkface", None)).startswith("a model of it is not")
    assert licence_of_models("mnist", "CC BY-SA 3.0") == "CC BY-SA 3.0"
    assert licence_of_models("own", None) is None
