"""Portraits: what they promise of attributes, of repeatability, of speed and of legibility."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from tests.data.samples import refused
from tests.scripts import load_script
from understudy.data.catalog import catalog_entry
from understudy.data.load import load
from understudy.data.portraits import (
    Declaration,
    _painted,
    declaration,
    draw_attributes,
    draw_look,
    portraits,
)
from understudy.data.records import Images, Records
from understudy.data.schema import Attribute, Schema


def codes_of(declared: Declaration, count: int = 20_000) -> dict[str, np.ndarray]:
    return draw_attributes(np.random.default_rng(1), count, declared)


def test_six_attributes_of_two_to_nine_classes():
    classes = [len(a.classes) for a in declaration().attributes]
    assert len(classes) == 6
    assert min(classes) == 2
    assert max(classes) == 9


def test_class_shares_are_the_declared_ones():
    declared = declaration()
    for name, codes in codes_of(declared).items():
        shares = np.array(declared.shares[name])
        assert shares.sum() == pytest.approx(1.0)
        found = np.bincount(codes, minlength=len(shares)) / len(codes)
        # Five standard deviations for each of 25 classes.
        assert (np.abs(found - shares) < 5 * np.sqrt(shares * (1 - shares) / len(codes))).all()


def test_attributes_are_correlated_as_declared_and_independent_without_the_copula():
    declared = declaration()
    assert np.allclose(declared.correlation, declared.correlation.T)
    assert np.linalg.eigvalsh(declared.correlation).min() > 0.1
    found = np.corrcoef(np.stack(list(codes_of(declared).values())))
    off = ~np.eye(6, dtype=bool)
    assert np.abs(found - declared.correlation)[off].max() < 0.16
    assert found[0, 4] > 0.3
    independent = replace(declared, correlation=np.eye(6))
    assert np.abs(np.corrcoef(np.stack(list(codes_of(independent).values())))[off]).max() < 0.04


def test_each_age_band_has_one_line_more_than_the_one_before():
    lines = np.sum(list(declaration().age_lines.values()), axis=0)
    assert lines.tolist() == list(range(9))
    assert all((np.diff(table) >= 0).all() for table in declaration().age_lines.values())


def test_pixels_repeat_by_seed_and_do_not_depend_on_the_count():
    few, many = portraits(10, 32, seed=5), portraits(70, 32, seed=5)
    assert (many.features[:10] == few.features).all()
    assert all((many.attributes[n][:10] == few.attributes[n]).all() for n in few.schema.names)
    assert not (portraits(10, 32, seed=6).features == few.features).all()
    assert len({image.tobytes() for image in many.features}) == 70


@pytest.mark.parametrize("attribute", [a.name for a in declaration().attributes])
def test_an_attribute_changes_the_picture_and_only_where_it_should(attribute):
    """With the same look, other classes give other pixels, in a small part of the picture."""
    declared = declaration()
    look = draw_look(np.random.default_rng(0), 8, declared.palette, declared.ranges)
    traits = draw_attributes(np.random.default_rng(0), 8, declared)
    pictures = []
    for code in range(len(declared.shares[attribute])):
        changed = {**traits, attribute: np.full(8, code)}
        pictures.append(_painted(look, changed, 64, declared).colours)
    for before, after in itertools.pairwise(pictures):
        differs = np.abs(before - after).max(axis=1) > 0.04
        assert (differs.mean(axis=(1, 2)) > 0.001).all()
        assert (differs.mean(axis=(1, 2)) < 0.35).all()


def test_the_catalog_draws_parts_at_any_size():
    dataset = load("portraits", size=8, label="glasses")
    assert {name: len(part) for name, part in dataset.parts.items()} == {
        "train": 8000,
        "test": 2000,
    }
    assert dataset.shape == (3, 8, 8)
    assert dataset.schema.classes == ("no", "yes")
    assert catalog_entry("portraits").label in dataset.schema.names


@pytest.mark.parametrize(("count", "size"), [(0, 64), (5, 4)])
def test_senseless_orders(count, size):
    with refused("count", "size"):
        portraits(count, size)


@pytest.fixture(scope="module")
def readability() -> ModuleType:
    """The script that measures the promise at full size; here it runs on a small set."""
    return load_script("portraits_readability")


def halves(records: Records, train: int) -> tuple[Records, Records]:
    return records.select(np.arange(train)), records.select(np.arange(train, len(records)))


def only(records: Records, names: tuple[str, ...]) -> Records:
    """The same pictures with some of their attributes."""
    schema = Schema(tuple(records.schema.attribute(name) for name in names))
    return Images(records.features, {name: records.attributes[name] for name in names}, schema)


def test_a_network_reads_what_a_linear_model_on_a_thumbnail_cannot(readability):
    """On what a short training can learn; the evidence file has all attributes at full size."""
    names = ("clothing", "hair", "glasses")
    train, test = halves(only(portraits(1000, 48, seed=1), names), 600)
    linear = readability.read_by_linear_model(train, test)
    network = readability.read_by_network(train, test, readability.Training(epochs=5, batch=32))
    for name in names:
        assert network[name] - linear[name] > 0.10, (name, network, linear)


def test_the_linear_model_does_read_what_mean_colour_gives_away(readability):
    """The other side: an attribute written in brightness would be caught as too easy."""
    drawn = portraits(600, 32)
    bright = drawn.features.mean(axis=(1, 2, 3))
    schema = Schema((Attribute("bright", ("no", "yes")),))
    easy = Images(drawn.features, {"bright": (bright > np.median(bright)).astype(int)}, schema)
    assert readability.read_by_linear_model(*halves(easy, 450))["bright"] > 0.95
