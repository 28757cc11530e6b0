"""What the filter benchmarks share: encoded records with their labels, and readers of them.

Settings were chosen on a split of the training records: a part for filters, a part for readers,
a part that is asked about. No test record had a say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from understudy.bench.published.reading import published
from understudy.data.load import load
from understudy.data.records import Array, Records
from understudy.data.schema import Attribute, Schema
from understudy.encoders.encoder import Encoder
from understudy.evaluation.filtering import Readers, View, reading_rows
from understudy.evaluation.protocol import load_protocol
from understudy.filters.filter import Filter
from understudy.privacy.noise.source import NoiseSource

READERS = ("mlp-15", "mlp")
"""The paper's reader, and one of 256 and 128 units."""

RATES = (0.02, 0.004)
"""Learning rates: what 15 units need, and what 256 do."""

REHEARSAL = 12345
"""The seed of the split of training records on which settings are chosen."""

CIRCLES = (0, 6, 8, 9)
TRAINED_ON = 10_000
SOURCE = "generative-filter"


def readers_of(seed: int) -> Readers:
    """Readers trained until they have learnt: 12 passes, at the best of several rates.

    The standard protocol's 4 passes suit images; they leave 15 units untrained, and the rate
    that 15 units need can leave 256 untrained: an untrained attacker makes every filter look
    good. So each reader tries every rate, and keeps the one that does best on a tenth of its
    own learning records.
    """
    standard = load_protocol("standard")
    training = replace(standard.training, epochs=12, batch_size=500)
    return Readers(replace(standard, seeds=1, training=training), seed, RATES)


def encoded_mnist(encoder: Encoder) -> View:
    data = load("mnist")
    return View(*(labelled_digits(encoder, data.parts[part]) for part in ("train", "test")))


def rehearsed_mnist(encoder: Encoder) -> View:
    """The training part alone, a sixth of it to be asked about: what settings are chosen on."""
    train = labelled_digits(encoder, load("mnist").parts["train"])
    order = np.random.default_rng(REHEARSAL).permutation(len(train))
    asked = len(train) // 6
    return View(train.select(order[asked:]), train.select(order[:asked]))


def labelled_digits(encoder: Encoder, images: Records) -> Records:
    """Latents of MNIST with the four labels of the paper."""
    digit = images.labels.astype(np.int64)
    two = ("no", "yes")
    columns = {
        "digit": digit,
        "at-least-5": (digit >= 5).astype(np.int64),
        "odd": digit % 2,
        "circle": np.isin(digit, CIRCLES).astype(np.int64),
    }
    binary = (Attribute(name, two) for name in ("at-least-5", "odd", "circle"))
    schema = Schema((Attribute("digit", tuple(map(str, range(10)))), *binary))
    return Records(encoder.encode(images.features).numpy(), columns, schema)


def encoded(encoder: Encoder, records: Records) -> Records:
    """Latents with the labels that the records have."""
    return Records(encoder.encode(records.features).numpy(), records.attributes, records.schema)


def filtered(fitted: Filter, raw: View, noise: NoiseSource) -> View:
    """Both parts as they would leave."""
    parts = [fitted.filtered(records, noise) for records in (raw.learned, raw.asked)]
    return raw.with_features(*parts)


def some(records: Records, count: int, seed: int) -> Records:
    return records.select(np.random.default_rng(seed).permutation(len(records))[:count])


def with_noise(features: Array, deviation: float, noise: NoiseSource) -> Array:
    return np.asarray(features + deviation * noise.normal(features.shape).numpy(), np.float32)


def figures(
    readers: Readers,
    sent: View,
    raw: View,
    roles: Mapping[str, str],
    names: Sequence[str] = READERS,
) -> dict[str, Any]:
    """Rows as plain values, by attribute."""
    return {
        name: [row.to_json() for row in reading_rows(readers, sent, raw, name, role, names)]
        for name, role in roles.items()
    }


def accuracies(found: Mapping[str, Any], reader: str, field: str = "value") -> dict[str, float]:
    """One reader's accuracy for every attribute of `figures`; `reference`: on raw latents."""
    chosen = {}
    for name, rows in found.items():
        for row in rows:
            words = str(row["metric"]).split()
            plain = words[-1] == "accuracy" and "balanced" not in words
            if plain and str(row["variant"]).startswith(f"{reader},"):
                chosen[name] = float(row[field])
    return chosen


def means(per_seed: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Over seeds, rounded to three places."""
    return {name: round(fmean(one[name] for one in per_seed), 3) for name in per_seed[0]}


def papers(table: str) -> list[dict[str, Any]]:
    """The paper's figures of one of its tables, to stand beside ours."""
    return [
        {"method": f.method, "metric": f.metric, "value": f.value, "note": f.note}
        for f in published(SOURCE)
        if f.table == table
    ]
