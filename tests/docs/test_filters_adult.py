"""What the benchmark of Adult says of its own figures is computed from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.scripts import load_script
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema

FIGURES = {"kept income accuracy": "kept income accuracy"}
FIGURES |= {"hidden gender AUROC": "hidden gender AUROC of hard labels"}


def run(income: float, gap: float) -> dict[str, Any]:
    """One seed of one method: a figure in nats is not of the table."""
    rows = [
        {"metric": name, "variant": "linear, latents", "unit": "fraction", "value": income}
        for name in FIGURES.values()
    ]
    nats = {"metric": "told", "variant": "linear, latents", "unit": "nats", "value": 9.0}
    parity = {"metric": "gap", "variant": "linear, latents", "unit": "fraction", "value": gap}
    return {"rows": {"income": [*rows, nats]}, "parity": [parity]}


def test_the_table_has_parity_beside_accuracy() -> None:
    found = load_script("filters_adult").table([run(0.8, 0.1), run(0.9, 0.2)])
    assert found["gap, linear"] == [0.15, 0.05]
    assert found["kept income accuracy, linear"] == [0.85, 0.05]
    assert "told, linear" not in found


def test_the_farthest_figure_is_found_on_either_side() -> None:
    script = load_script("filters_adult")
    means = script.table([run(0.8, 0.1)])
    for income, area, farthest in ((0.82, 0.9, "hidden gender AUROC"), (0.6, 0.81, "kept income")):
        published = [
            {"metric": "kept income accuracy", "value": income},
            {"metric": "hidden gender AUROC", "value": area},
        ]
        assert script.farthest(means, published, "linear")["metric"].startswith(farthest)


def test_every_method_has_words_and_settings() -> None:
    script = load_script("filters_adult")
    assert set(script.SETTINGS) == set(script.METHODS) - {"raw"}
    assert set(script.STANDS_FOR) <= set(script.METHODS)
    assert all(reader in script.READERS for _, reader in script.STANDS_FOR.values())
    assert set(script.CHOSEN_AMONG) == set(script.SETTINGS)


def test_settings_are_chosen_on_training_records_alone() -> None:
    script = load_script("filters_adult")
    count = script._LEARNED_OF_TRAINING + 100
    training = Records(
        np.arange(count, dtype=np.float32)[:, None],
        {"income": np.arange(count) % 2},
        Schema((Attribute("income", ("low", "high")),)),
    )
    view = script.split(training)
    seen = np.concatenate([view.learned.features[:, 0], view.asked.features[:, 0]])
    assert len(view.asked) == 100
    assert np.array_equal(np.sort(seen), np.arange(count))


def test_the_true_gap_is_that_of_the_labels() -> None:
    two = ("no", "yes")
    labels = {"income": np.array([1, 1, 0, 0, 0, 0, 0, 1]), "gender": np.repeat([1, 0], 4)}
    schema = Schema((Attribute("income", two), Attribute("gender", two)))
    records = Records(np.zeros((8, 1), np.float32), labels, schema)
    assert load_script("filters_adult").true_gap(records) == 0.25
