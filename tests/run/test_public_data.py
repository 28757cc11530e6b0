"""Public data of a run: asked for where needed, named in the ledger, never the private ones."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import drawing
from tests.encoders.samples import PUBLIC as PROVENANCE
from tests.encoders.samples import encoder_of
from tests.run.public_method import TINTED, write_tint
from tests.workplace import Workplace
from understudy.data import weights as catalog
from understudy.data.content import content_digest
from understudy.data.load import Dataset, load
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.data.weights import WeightsEntry, given_weights
from understudy.data.weights_file import digest_of
from understudy.encoders.file import write_encoder
from understudy.errors import UserError
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.noise.source import NoiseSource
from understudy.progress import Silent
from understudy.release.facts import InputFacts, PublicInput, RunFacts
from understudy.run import public
from understudy.run.config import RunConfig
from understudy.run.prepare import Prepared, prepare, run_facts
from understudy.run.public import PublicData
from understudy.run.start import begin, check_same_facts, method_inputs

KEY = b"k" * 32


def prepared(
    source: str, public: str | None, method: str = "pdp-diffusion", weights: tuple[str, ...] = ()
) -> Prepared:
    changes = ("batch=8",) if method in ("pdp-diffusion", "dp-feta") else ()
    given = {"public": public, "weights": weights, "changes": changes, "time": None}
    config = RunConfig(source, method, 1.0, **given)  # type: ignore[arg-type]
    return prepare(config, None, Silent(), split_key=KEY)


def tinted(source: str, public: str, *weights: str) -> Prepared:
    return prepared(source, public, TINTED, weights)


@pytest.fixture
def photos(tmp_path: Path) -> str:
    drawing.class_folder(tmp_path / "photos", count=30, seed=0)
    return str(tmp_path / "photos")


def test_the_ledger_names_the_public_data(photos: str) -> None:
    facts = run_facts(prepared(photos, "digits"), NoiseSource()).to_json()
    (named,) = facts["public_inputs"] or [{}]
    assert named.get("name") == "digits", "the public data are not named"
    assert "scikit-learn" in named["provenance"]
    assert (named["use"], named["kind"], named["licence"]) == ("records", "records", "CC BY 4.0")
    assert named["sha256"] == content_digest(load("digits").parts["train"])


def test_what_an_owner_declares_is_called_a_declaration(photos: str) -> None:
    facts = run_facts(prepared("digits", photos), NoiseSource()).to_json()
    (named,) = facts["public_inputs"]
    assert named["provenance"].startswith("declared public by the owner: ")
    assert photos not in named["provenance"]
    assert named["licence"] is None


def test_images_of_many_sizes_are_taken_at_one_that_is_asked_for(
    photos: str, tmp_path: Path
) -> None:
    """As the error says that there is without it."""
    Image.new("L", (20, 23)).save(tmp_path / "photos" / "cross" / "larger.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "cross" / "colour.png")
    with pytest.raises(UserError, match="--channels"):
        prepared("digits", photos)
    config = RunConfig("digits", "pdp-diffusion", 1.0, public=(photos,), changes=("batch=8",))
    config = replace(config, size=16, channels=1, time=None)
    found = prepare(config, None, Silent(), split_key=KEY).public
    assert public.public_part(found.records["records"]).shape == (1, 16, 16)


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


class TestWeights:
    def test_each_is_stated_under_the_methods_name_for_it(
        self, photos: str, tmp_path: Path
    ) -> None:
        warm, cold = write_tint(tmp_path / "w.npz", 0.9), write_tint(tmp_path / "c.npz", 0.1)
        found = tinted(photos, "faces=digits", f"cold={cold}", f"warm={warm}")
        inputs = run_facts(found, NoiseSource()).to_json()["public_inputs"]
        assert [(i["use"], i["kind"], i["name"]) for i in inputs] == [
            ("faces", "records", "digits"),
            ("warm", "weights", "w.npz"),
            ("cold", "weights", "c.npz"),
        ], "not every public input is named"
        assert [i["sha256"] for i in inputs[1:]] == [digest_of(warm), digest_of(cold)]
        assert all(i["provenance"].startswith("declared public") for i in inputs[1:])
        assert str(tmp_path) not in str(inputs)

    def test_each_is_handed_on_under_its_own_name(self, photos: str, tmp_path: Path) -> None:
        warm, cold = write_tint(tmp_path / "w.npz", 0.9), write_tint(tmp_path / "c.npz", 0.1)
        found = tinted(photos, "faces=digits", f"cold={cold}", f"warm={warm}")
        public = method_inputs(found, Book.open("photos", tmp_path / "home")).public
        assert {name: file.path for name, file in public.weights.items()} == {
            "warm": warm,
            "cold": cold,
        }, "weights lie under another name"

    def test_those_of_the_catalog_come_with_its_words(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write_tint(tmp_path / "known.npz", 0.5)
        entry = WeightsEntry(
            "lenet-mnist", "", "trained by a test", "MIT", "known.npz", "npz", 1, digest_of(path)
        )
        monkeypatch.setattr(catalog, "weights_catalog", lambda: {"lenet-mnist": entry})
        monkeypatch.setenv("UNDERSTUDY_WEIGHTS", str(tmp_path))
        found = prepared("digits", None, f"{TINTED}ByDefault")
        assert public.public_facts(found.public) == (
            PublicInput(
                "lenet-mnist",
                "trained by a test",
                InputFacts("warm", "weights", "MIT", digest_of(path)),
            ),
        )
        write_tint(path, 0.6)
        with pytest.raises(UserError, match=f"--weights lenet-mnist: .*but .* has {entry.sha256}"):
            prepared("digits", None, f"{TINTED}ByDefault")

    def test_what_is_wrong_with_them_is_said_of_them(self, photos: str) -> None:
        words = "^--weights notes: notes is neither a file nor in the catalog"
        with pytest.raises(UserError, match=words):
            tinted(photos, "faces=digits", "warm=notes")

    def test_what_the_method_cannot_use_costs_nothing(self, photos: str, tmp_path: Path) -> None:
        path = write_tint(tmp_path / "w.npz", 7.0)
        with pytest.raises(UserError, match="holds a tint outside 0 to 1"):
            tinted(photos, "faces=digits", f"warm={path}")

    @pytest.mark.parametrize("below", ["", "synthesizer"])
    def test_what_a_run_left_is_not_public(self, photos: str, tmp_path: Path, below: str) -> None:
        folder = tmp_path / "runs" / "one" / below
        folder.mkdir(parents=True)
        (tmp_path / "runs" / "one" / "ledger.jsonl").touch()
        path = write_tint(folder / "w.npz", 0.5)
        with pytest.raises(UserError, match="learnt from private records and is not public"):
            tinted(photos, "faces=digits", f"warm={path}")

    def test_a_file_among_the_private_data_is_not_public(self, photos: str) -> None:
        path = write_tint(Path(photos) / "w.npz", 0.5)
        with pytest.raises(UserError, match="lies in the private data; give other weights"):
            tinted(photos, "faces=digits", f"warm={path}")

    def test_an_encoder_says_itself_what_it_learnt_from(self, tmp_path: Path) -> None:
        made = encoder_of()
        learnt = replace(PROVENANCE, trained_on="scans of a ward", licence="CC0-1.0")
        write_encoder(tmp_path / "e.safetensors", made.with_provenance(learnt))
        found = public._weights(str(tmp_path / "e.safetensors"), RunConfig("digits", TINTED, 1.0))
        assert "an encoder trained on scans of a ward" in found.provenance
        assert found.licence == "CC0-1.0"

    @pytest.mark.parametrize(("claim", "epsilon"), [("central", 1.0), ("revealed", math.inf)])
    def test_an_encoder_of_private_records_is_not_public(
        self, tmp_path: Path, claim: str, epsilon: float
    ) -> None:
        private = replace(PROVENANCE, claim=claim, epsilon=epsilon, delta=1e-5)
        path = tmp_path / "e.safetensors"
        write_encoder(path, encoder_of().with_provenance(private))
        with pytest.raises(UserError, match="learnt from private records, so it is not public"):
            public._weights(str(path), RunConfig("digits", TINTED, 1.0))

    def test_weights_alone_give_no_place_that_outlasts_the_run(self, tmp_path: Path) -> None:
        weights = {"warm": given_weights(str(write_tint(tmp_path / "w.npz", 0.5)))}
        assert public.public_inputs(PublicData({}, weights), tmp_path).cache is None


def test_a_release_states_every_public_input_and_verifies(workplace: Workplace) -> None:
    """In claim, ledger, card and Croissant alike; what is stated is what was given."""
    drawing.class_folder(workplace / "photos")
    warm = write_tint(workplace / "warm.npz", 0.75)
    words = ("synthesize", "photos", "--method", TINTED, "--epsilon", "8", "--samples", "30")
    given = ("--public", "faces=digits", "--weights", "warm=warm.npz")
    workplace.run(*words, *given, "-o", "out").succeeded()
    assert workplace.run("verify", "out").succeeded().out.startswith("consistent")
    claim = json.loads((workplace / "out" / "claim.json").read_text())
    stated = {one["use"]: one for one in claim["public_inputs"]}
    assert stated["warm"]["sha256"] == digest_of(warm)
    assert stated["faces"]["licence"] == "CC BY 4.0", "the licence is left out"
    sentence = next(s for s in claim["statement"] if s.startswith("Public inputs"))
    assert "digits, records used as 'faces' (UCI" in sentence
    assert "licence: CC BY 4.0" in sentence
    assert "licence: unknown" in sentence
    croissant = json.loads((workplace / "out" / "croissant.json").read_text())
    for text in (
        (workplace / "out" / "README.md").read_text(),
        (workplace / "out" / "ledger.jsonl").read_text(),
        json.dumps(croissant["isBasedOn"]),
        (workplace / "runs" / "out" / "report-public.html").read_text(),
    ):
        for one in stated.values():
            assert one["sha256"] in text
            assert one["name"] in text
    assert {work.get("license") for work in croissant["isBasedOn"]} == {"CC BY 4.0", None}


def test_a_dry_run_names_every_public_input(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", count=30, seed=0)
    write_tint(workplace / "warm.npz", 0.5)
    words = ("synthesize", "photos", "--method", TINTED, "--epsilon", "5", "--dry-run")
    given = ("--public", "faces=digits", "--weights", "warm=warm.npz")
    said = workplace.run(*words, *given).succeeded().out
    assert "public records: faces = digits (licence: CC BY 4.0)" in said
    assert "public weights: warm = warm.npz (licence: unknown)" in said
    found = json.loads(workplace.run(*words, *given, "--json").succeeded().out)
    assert [one["use"] for one in found["public_inputs"]] == ["faces", "warm"]


def test_a_run_goes_on_with_the_same_weights_only(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos")
    write_tint(workplace / "warm.npz", 0.75)
    words = ("synthesize", "photos", "--method", TINTED, "--epsilon", "8", "--samples", "30")
    words = (*words, "--public", "faces=digits", "--weights", "warm=warm.npz", "-o", "out")
    workplace.run(*words, "--title", "Tints").succeeded()
    shutil.rmtree(workplace / "out")
    write_tint(workplace / "warm.npz", 0.25)
    workplace.run(*words, "--resume").refused("public_inputs", "restore what it began with")
    write_tint(workplace / "warm.npz", 0.75)
    workplace.run(*words, "--resume").succeeded()
    other = (*words[:-4], "--weights", "warm=./warm.npz", "-o", "out", "--resume")
    workplace.run(*other).refused("--weights")


def test_public_inputs_that_version_0_1_stated_are_the_same_in_fewer_words(photos: str) -> None:
    facts = run_facts(prepared(photos, "digits"), NoiseSource())
    (one,) = facts.as_version_0_1().to_json()["public_inputs"]
    assert set(one) == {"name", "provenance"}
    assert RunFacts.from_json(facts.as_version_0_1().to_json()) == facts.as_version_0_1()
    assert RunFacts.from_json(facts.to_json()) == facts


def test_a_run_that_version_0_1_began_with_public_data_goes_on(photos: str, tmp_path: Path) -> None:
    """Its plan says less of them, and must not say otherwise."""
    now = prepared(photos, "digits")
    folder = begin(tmp_path / "run", now, NoiseSource())
    plan = json.loads((folder.path / "plan.json").read_text())
    (stated,) = plan["run"]["public_inputs"]
    plan["run"]["public_inputs"] = [{key: stated[key] for key in ("name", "provenance")}]
    (folder.path / "plan.json").write_text(json.dumps(plan))
    check_same_facts(folder, now, NoiseSource())
    plan["run"]["public_inputs"][0]["name"] = "other digits"
    (folder.path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(UserError, match="public_inputs differ"):
        check_same_facts(folder, now, NoiseSource())
