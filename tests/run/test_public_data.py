"""Public data of a run: asked for where needed, named in the ledger, never the private ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import drawing
from understudy.data.load import Dataset
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.noise.source import NoiseSource
from understudy.progress import Silent
from understudy.run import public
from understudy.run.config import RunConfig
from understudy.run.prepare import Prepared, prepare, run_facts
from understudy.run.start import method_inputs

KEY = b"k" * 32


def prepared(source: str, public: str | None, method: str = "pdp-diffusion") -> Prepared:
    changes = () if method == "dp-merf" else ("batch=8",)
    config = RunConfig(source, method, 1.0, public=public, changes=changes)
    return prepare(config, None, Silent(), split_key=KEY)


@pytest.fixture
def photos(tmp_path: Path) -> str:
    drawing.class_folder(tmp_path / "photos", count=30, seed=0)
    return str(tmp_path / "photos")


def test_the_ledger_names_the_public_data(photos: str) -> None:
    facts = run_facts(prepared(photos, "digits"), NoiseSource()).to_json()
    (named,) = facts["public_inputs"] or [{}]
    assert named.get("name") == "digits", "the public data are not named"
    assert "scikit-learn" in named["provenance"]


def test_what_an_owner_declares_is_called_a_declaration(photos: str) -> None:
    facts = run_facts(prepared("digits", photos), NoiseSource()).to_json()
    (named,) = facts["public_inputs"]
    assert named["provenance"].startswith("declared public by the owner: ")
    assert photos not in named["provenance"]


def test_images_of_many_sizes_are_taken_at_one_that_is_asked_for(
    photos: str, tmp_path: Path
) -> None:
    """As the error says that there is without it."""
    Image.new("L", (20, 23)).save(tmp_path / "photos" / "cross" / "larger.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "cross" / "colour.png")
    with pytest.raises(UserError, match="--channels"):
        prepared("digits", photos)
    config = RunConfig("digits", "pdp-diffusion", 1.0, public=photos, changes=("batch=8",))
    config = replace(config, size=16, channels=1)
    found = prepare(config, None, Silent(), split_key=KEY).public
    assert found is not None
    assert public.public_part(found).shape == (1, 16, 16)


def test_a_method_that_needs_none_names_none(photos: str) -> None:
    facts = run_facts(prepared(photos, None, "dp-merf"), NoiseSource()).to_json()
    assert facts["public_inputs"] == []


@pytest.mark.parametrize(
    "written",
    ["{path}", "{path}/", "./photos", "../{here}/photos", "{path}/ant", "{here_path}", "link"],
)
def test_the_private_data_cannot_be_declared_public(
    photos: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However their place is written, and not a part of them or a folder that holds them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(photos)
    public = written.format(path=photos, here=tmp_path.name, here_path=tmp_path)
    with pytest.raises(UserError, match="is the private data; give other data"):
        prepared(photos, public)


def test_needed_data_that_are_missing_and_unneeded_data_are_named(photos: str) -> None:
    with pytest.raises(UserError, match="pdp-diffusion needs public data; name them with --public"):
        prepared(photos, None)
    with pytest.raises(UserError, match="dp-merf uses no public data; leave --public out"):
        prepared(photos, "digits", "dp-merf")


def test_the_method_is_handed_the_records_and_a_place_beside_the_books(
    photos: str, tmp_path: Path
) -> None:
    book = Book.open("photos", tmp_path / "home")
    public = method_inputs(prepared(photos, "digits"), book).public
    assert len(public.records["records"]) > 1000
    assert public.cache == tmp_path / "home" / "made-from-public-data"


def test_a_method_without_public_data_has_no_place_that_outlasts_its_run(
    photos: str, tmp_path: Path
) -> None:
    """What it made of a charged release would lie there for other runs, which do not pay for it."""
    public = method_inputs(prepared(photos, None, "dp-feta"), Book.open("photos", tmp_path)).public
    assert (public.cache, dict(public.records)) == (None, {})


def test_public_data_that_cannot_be_learned_from_cost_nothing(
    photos: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused before there is a plan."""
    rows = Records(np.zeros((12, 3), dtype=np.float32), {}, Schema(()))
    table = Dataset("rows", {"all": rows}, True, "a test")
    monkeypatch.setattr(public, "load", lambda *_, **__: table)
    with pytest.raises(UserError, match="learns from public images of 1 or 3 channels"):
        prepared(photos, "digits")


def test_what_is_wrong_with_public_data_is_said_of_them(photos: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^--public {tmp_path / 'nowhere'}: "):
        prepared(photos, str(tmp_path / "nowhere"))
