"""Keys: each input changes the keys of the phases that depend on it, and no others."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

from understudy.bench.suite.cell import Cell
from understudy.bench.suite.method_lookup import Lookup
from understudy.bench.work.phase_keys import Keys, phase_keys
from understudy.errors import PrivacyError
from understudy.evaluate.protocol import load_protocol

HASH = "ab" * 32
CELL = Cell("dp-merf", "digits", 1.0)
FIT, SAMPLE, EVALUATE = {"fit", "sample", "evaluate"}, {"sample", "evaluate"}, {"evaluate"}

CHANGES = {
    "method": ("dp-gan", FIT),
    "dataset": ("mnist", FIT),
    "epsilon": (2.0, FIT),
    "delta": (1e-6, FIT),
    "seed": (1, FIT),
    "settings": (("steps=7",), FIT),
    "label": ("label", FIT),
    "unit": ("person", FIT),
    "size": (16, FIT),
    "channels": (3, FIT),
    "hide": (("age",), FIT),
    "keep": (("age",), FIT),
    "public": (("mnist",), FIT),
    "weights": (("taef2",), FIT),
    "limit": (100, FIT),
    "samples": (10, SAMPLE),
    "protocol": ("reduced", EVALUATE),
    "device": ("cuda", set[str]()),
}
"""For every field of a cell: another value, and the phases that must be done again for it."""


@pytest.fixture(scope="module")
def lookup() -> Lookup:
    return Lookup()


def differing(one: Keys, other: Keys) -> set[str]:
    return {f.name for f in fields(Keys) if getattr(one, f.name) != getattr(other, f.name)}


def test_keys_are_three_different_hashes_and_stable(lookup: Lookup) -> None:
    keys = phase_keys(CELL, data=HASH, lookup=lookup)
    assert len({keys.fit, keys.sample, keys.evaluate}) == 3
    assert all(len(key) == 64 and int(key, 16) >= 0 for key in (keys.fit, keys.sample))
    assert phase_keys(CELL, data=HASH) == keys, "without what was looked up before"


def test_every_field_is_accounted_for() -> None:
    assert set(CHANGES) == {f.name for f in fields(Cell)}


@pytest.mark.parametrize("field", CHANGES)
def test_a_field_changes_the_phases_that_depend_on_it(field: str, lookup: Lookup) -> None:
    value, phases = CHANGES[field]
    before = phase_keys(CELL, data=None, lookup=lookup)
    after = phase_keys(replace(CELL, **{field: value}), data=None, lookup=lookup)
    assert differing(before, after) == phases


def test_weights_count_by_their_content(tmp_path: Path, lookup: Lookup) -> None:
    """Wherever the file lies; the only public data of a method are one with their name."""
    keys = []
    for name, content in (("one", b"weights"), ("two", b"weights"), ("three", b"others")):
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        keys.append(phase_keys(replace(CELL, weights=(str(path),)), data=None, lookup=lookup))
    assert keys[0] == keys[1]
    assert differing(keys[0], keys[2]) == FIT, "other weights are the same fit"


def test_the_only_public_data_are_the_same_under_their_name(lookup: Lookup) -> None:
    cell = replace(CELL, method="pdp-diffusion", public="mnist")
    named = replace(cell, public=("records=mnist",))
    keys = [phase_keys(c, data=None, lookup=lookup) for c in (cell, named)]
    assert keys[0] == keys[1]


def test_the_content_of_public_data_counts(lookup: Lookup) -> None:
    one, other = (phase_keys(CELL, data=h, lookup=lookup) for h in (HASH, "cd" * 32))
    assert differing(one, other) == FIT
    assert differing(one, phase_keys(CELL, data=None, lookup=lookup)) == FIT


def test_a_hash_of_private_records_is_refused(tmp_path: Path, lookup: Lookup) -> None:
    (tmp_path / "photos").mkdir()
    private = replace(CELL, dataset=str(tmp_path / "photos"))
    with pytest.raises(PrivacyError, match="not declared public"):
        phase_keys(private, data=HASH, lookup=lookup)
    assert phase_keys(private, data=None, lookup=lookup).fit


def test_a_folder_is_the_same_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lookup: Lookup
) -> None:
    """As in the account book: a suite started from elsewhere must not spend again."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "other").mkdir()
    whole = phase_keys(replace(CELL, dataset=str(tmp_path / "photos")), data=None, lookup=lookup)
    monkeypatch.chdir(tmp_path)
    near = phase_keys(replace(CELL, dataset="./photos"), data=None, lookup=lookup)
    far = phase_keys(replace(CELL, dataset="./other"), data=None, lookup=lookup)
    assert whole == near
    assert differing(near, far) == FIT


def test_settings_count_by_what_they_come_to(lookup: Lookup) -> None:
    """What a preset says anyway is no change; the order of settings is none."""
    same = replace(CELL, settings=("steps=400",))
    assert phase_keys(same, data=None, lookup=lookup) == phase_keys(CELL, data=None, lookup=lookup)
    one = replace(CELL, settings=("latent=4", "steps=5"))
    other = replace(CELL, settings=("steps=5", "latent = 4"))
    assert phase_keys(one, data=None) == phase_keys(other, data=None)


def test_a_protocol_counts_by_its_content_not_by_its_file(tmp_path: Path) -> None:
    def keys(name: str, **changes: object) -> Keys:
        (tmp_path / name).mkdir()
        path = tmp_path / name / "quick.yaml"
        content = load_protocol("reduced").to_json()
        path.write_text(yaml.safe_dump({**content, "name": "quick", **changes}))
        return phase_keys(replace(CELL, protocol=str(path)), data=None)

    first = keys("a")
    assert keys("b") == first
    assert differing(first, keys("c", seeds=2)) == EVALUATE
    assert differing(first, keys("d", stamp="another stamp")) == EVALUATE


def test_a_raised_version_redoes_what_rests_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("dp-merf", "digits", 1.0)
    first = phase_keys(cell, data=None)
    monkeypatch.setattr("understudy.bench.work.phase_keys.EVALUATE_VERSION", 2)
    measured_anew = phase_keys(cell, data=None)
    assert (measured_anew.fit, measured_anew.sample) == (first.fit, first.sample)
    assert measured_anew.evaluate != first.evaluate
    monkeypatch.setattr("understudy.bench.work.phase_keys.FIT_VERSION", 2)
    assert phase_keys(cell, data=None).fit != first.fit


def test_keys_of_one_shot_methods_say_that_their_noise_is_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one_shot, stepwise = CELL, replace(CELL, method="dp-gan")
    before = [phase_keys(cell, data=None).fit for cell in (one_shot, stepwise)]
    monkeypatch.setattr("understudy.bench.work.phase_keys.EXACT", "another arithmetic")
    after = [phase_keys(cell, data=None).fit for cell in (one_shot, stepwise)]
    assert after[0] != before[0]
    assert after[1] == before[1]
