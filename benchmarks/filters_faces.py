"""The generative filter's Table 3 on UTKFace, which stands in for CelebA.

    python benchmarks/filters_faces.py ENCODER [--seeds 0,1,2] [--latents FILE.npz] [--choose]

ENCODER is a densenet encoder file (`benchmarks/encoder_away.py`, or `understudy filter init utkface
--kind densenet`). As in the paper, one attribute is kept and each other is hidden in turn; then
several at once. Filters are trained on the filter share of the training part (`faces.py`), readers
afresh on the same records as they are sent, and asked about the test part. --choose measures on a
split of the filter share instead, for choosing settings, and writes nothing down. --latents keeps
the latents, which take about ten minutes of one core. Evidence files hold figures, no pictures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from faces import (
    ENCODER,
    FILTER,
    NAME,
    TEST,
    content_mark,
    face_labels,
    face_parts,
    face_schema,
)
from latent_readings import accuracies, figures, filtered, papers, readers_of, with_noise
from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.data.load import load
from understudy.data.records import Array, Records
from understudy.data.splits import stratified_split
from understudy.encoders.encoder import Encoder
from understudy.encoders.file import read_encoder
from understudy.errors import UserError
from understudy.evaluation.filtering import Readers, View, information_row, parity_row, reading_rows
from understudy.evaluation.protocol import load_protocol
from understudy.filters.choice import Choice, best_achievable
from understudy.filters.distortion import Distortion, noise_within
from understudy.filters.filter import fit_filter
from understudy.filters.game import GameConfig
from understudy.methods.config import config_to_json
from understudy.privacy.accounting.accountants import local_price
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import LocalGaussian

READERS = ("mlp-60", "mlp")
"""The paper's reader of faces, and one of 256 and 128 units."""

CHOICES = (
    Choice(("gender",), ("young",)),
    Choice(("race",), ("young",)),
    Choice(("young",), ("gender",)),
    Choice(("race",), ("gender",)),
    Choice(("gender", "race"), ("young",)),
    Choice(("young", "race"), ("gender",)),
)
LIMIT = Distortion("kl", 5.0)
FORMS = {
    "linear": GameConfig(steps=600, batch=256, head_steps=3, utility_weight=2.0),
    "network": GameConfig(
        kind="network", hidden=32, steps=600, batch=256, head_steps=3, filter_rate=0.005
    ),
}
SENT = (*FORMS, "gaussian")
DELTA = 1e-5
PICTURE_READERS = ("mlp", "cnn")
DECODED = (4_000, 2_000)
"""Records that are decoded, to learn from and to be asked about; they take room and time."""


@dataclass(frozen=True)
class Faces:
    """Encoded records with their labels, and what readers of decoded pictures share."""

    encoder: Encoder
    raw: View
    known_share: bool
    picture_readers: Readers = field(default_factory=lambda: picture_readers())
    raw_pictures: list[View] = field(default_factory=list)

    @property
    def variances(self) -> Array:
        return np.asarray(self.raw.learned.features, np.float64).var(axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--latents", type=Path, help="where to keep latents, NAME.npz")
    parser.add_argument("--choose", action="store_true", help="on a split of the filter share")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    seeds = [int(s) for s in asked.seeds.split(",")]
    provenance = Provenance.read(REPOSITORY)
    faces = encoded_faces(read_encoder(asked.encoder), asked.latents)
    if asked.choose:
        faces = for_choosing(faces)
    seconds: dict[str, float] = {}
    result = measure(faces, seeds, seconds, pictures=not asked.choose)
    if asked.choose:
        return
    command = f"python benchmarks/filters_faces.py ENCODER --seeds {asked.seeds}"
    for name, part in files_of(result).items():
        write_measurement(
            EVIDENCE,
            name,
            provenance=provenance,
            command=command,
            config=described(faces),
            seeds=seeds,
            seconds=seconds,
            peak_gigabytes=None,
            result=part,
        )


def files_of(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Evidence files and what each holds: the table, then all rows of two choices a file."""
    tasks = list(result["choices"].items())
    files = {"filters_faces": {k: v for k, v in result.items() if k != "choices"}}
    for number, first in enumerate(range(0, len(tasks), 2), start=1):
        files[f"filters_faces-{number}"] = {"choices": dict(tasks[first : first + 2])}
    return files


def described(faces: Faces) -> dict[str, Any]:
    return {
        "encoder": faces.encoder.digest,
        "encoder learnt from": faces.encoder.provenance.trained_on,
        "encoder's settings": faces.encoder.provenance.settings,
        "from the encoder's share alone": faces.known_share,
        "readers": list(READERS),
        "settings": settings(),
    }


def settings() -> dict[str, Any]:
    return {
        form: {**config_to_json(config), LIMIT.kind: LIMIT.budget} for form, config in FORMS.items()
    }


def encoded_faces(encoder: Encoder, kept: Path | None) -> Faces:
    """The filter share and the test part as latents with the three labels."""
    parts = face_parts(load(NAME))
    mark = f"{encoder.digest} {content_mark(parts[FILTER])} {content_mark(parts[TEST])}"
    latents = _kept(kept, mark) or {
        name: encoder.encode(parts[name].features).numpy() for name in (FILTER, TEST)
    }
    if kept is not None:
        with kept.open("wb") as file:
            np.savez(file, mark=np.array(mark), **latents)
    views = [
        Records(latents[name], face_labels(parts[name]), face_schema()) for name in (FILTER, TEST)
    ]
    known = content_mark(parts[ENCODER]) in encoder.provenance.trained_on
    return Faces(encoder, View(*views), known)


def _kept(path: Path | None, mark: str) -> dict[str, Array] | None:
    if path is None or not path.exists():
        return None
    with np.load(path, allow_pickle=False) as data:
        if str(data["mark"]) != mark:
            raise UserError(f"{path} holds latents of another encoder or other records; delete it.")
        return {name: data[name] for name in (FILTER, TEST)}


def for_choosing(faces: Faces) -> Faces:
    """Without the test part: a fifth of the filter share is asked about."""
    parts = stratified_split(faces.raw.learned, {"learned": 0.8, "asked": 0.2}, seed=1)
    return replace(faces, raw=View(parts["learned"], parts["asked"]))


def measure(
    faces: Faces, seeds: Sequence[int], seconds: dict[str, float], pictures: bool
) -> dict[str, Any]:
    """Every choice by every form and seed; its row of the table is printed as it ends."""
    readers = {seed: readers_of(seed) for seed in seeds}
    tasks: dict[str, Any] = {}
    table = []
    for choice in CHOICES:
        start = time.process_time()
        runs = {seed: one_choice(faces, choice, readers[seed]) for seed in seeds}
        for row in table_rows(choice, faces.raw.asked, list(runs.values())):
            print(row, flush=True)
            table.append(row)
        tasks[words_of(choice)] = {"seeds": {str(seed): run for seed, run in runs.items()}}
        tasks[words_of(choice)]["lowest that any mechanism can reach"] = {
            str(share): best_achievable(faces.raw.asked, choice, share) for share in (0.9, 1.0)
        }
        if pictures:
            tasks[words_of(choice)]["decoded"] = decoded(faces, choice)
        seconds[words_of(choice)] = round(time.process_time() - start, 1)
    told = {"published": papers("3"), "table": table, "seeds": list(seeds)}
    return {**told, "choices": tasks}


def words_of(choice: Choice) -> str:
    return f"hide {' and '.join(choice.private)}, keep {' and '.join(choice.useful)}"


def roles_of(choice: Choice) -> dict[str, str]:
    """Of every attribute; the one that a choice does not name is read too."""
    unlisted = dict.fromkeys(face_schema().names, "unlisted")
    hidden = dict.fromkeys(choice.private, "hidden")
    return unlisted | hidden | dict.fromkeys(choice.useful, "kept")


def one_choice(faces: Faces, choice: Choice, readers: Readers) -> dict[str, Any]:
    """What each form sends, read by every reader."""
    raw, kept, found = faces.raw, choice.useful[0], {}
    for form in SENT:
        sent, facts = sent_by(form, faces, choice, readers.seed)
        found[form] = {
            **facts,
            "rows": figures(readers, sent, raw, roles_of(choice), READERS),
            "information": {
                name: information_row(sent, raw, name, "hidden", readers.seed).to_json()
                for name in choice.private
            },
            "parity": {
                name: parity_row(readers, sent, raw, kept, name, READERS[0]).to_json()
                for name in choice.private
            },
        }
    return found


def sent_by(form: str, faces: Faces, choice: Choice, seed: int) -> tuple[View, dict[str, float]]:
    """Both parts as they leave, and what is to be known of how.

    The Gaussian mechanism has the noise that the same budget allows; its epsilon is local, per
    record, for latents clipped to the encoder's radius.
    """
    raw, noise = faces.raw, NoiseSource()
    if form == "gaussian":
        deviation = noise_within(LIMIT, faces.variances)
        price = local_price([LocalGaussian(deviation / (2 * faces.encoder.radius))], DELTA)
        both = (with_noise(r.features, deviation, noise) for r in (raw.learned, raw.asked))
        return raw.with_features(*both), {"local epsilon": price.epsilon}
    start = time.process_time()
    fitted = fit_filter(raw.learned, choice, LIMIT, faces.encoder, FORMS[form], seed=seed)
    took = round(time.process_time() - start, 2)
    facts = {
        "processor seconds of training": took,
        "distortion": fitted.measured,
        "distortion on those asked": fitted.distortion_on(raw.asked),
    }
    return filtered(fitted, raw, noise), facts


def table_rows(
    choice: Choice, asked: Records, runs: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One row for each hidden attribute and reader: means over seeds, raw beside sent."""
    rows = []
    for hidden in choice.private:
        shares = np.bincount(asked.attributes[hidden]) / len(asked)
        for reader in READERS:
            row: dict[str, Any] = {"hidden": hidden, "with": words_of(choice), "reader": reader}
            row["majority"] = round(float(shares.max()), 3)
            for role, name in (("hidden", hidden), ("kept", choice.useful[0])):
                raws = [accuracies(r[SENT[0]]["rows"], reader, "reference")[name] for r in runs]
                row[f"{role} raw"] = round(fmean(raws), 3)
                for form in SENT:
                    got = [accuracies(r[form]["rows"], reader)[name] for r in runs]
                    row[f"{role} {form}"] = round(fmean(got), 3)
            for figure in ("information", "parity"):
                for form in SENT:
                    cells = [r[form][figure][hidden] for r in runs]
                    row[f"{figure} raw"] = round(fmean(c["reference"] for c in cells), 3)
                    row[f"{figure} {form}"] = round(fmean(c["value"] for c in cells), 3)
            rows.append(row)
    return rows


def decoded(faces: Faces, choice: Choice) -> list[dict[str, Any]]:
    """What is read from pictures that the decoder makes of what the network filter sends."""
    if not faces.raw_pictures:
        faces.raw_pictures.append(pictures_of(faces.raw, faces.encoder))
    sent, _ = sent_by("network", faces, choice, 0)
    pictures, (raw,) = pictures_of(sent, faces.encoder), faces.raw_pictures
    named = {name: role for name, role in roles_of(choice).items() if role != "unlisted"}
    return [
        row.to_json()
        for name, role in named.items()
        for row in reading_rows(
            faces.picture_readers, pictures, raw, name, role, PICTURE_READERS, "images"
        )
    ]


def pictures_of(view: View, encoder: Encoder) -> View:
    """Some records decoded, and halved to 32x32, so that one core can read them."""
    some = [
        records.select(np.random.default_rng(0).permutation(len(records))[:most])
        for records, most in zip((view.learned, view.asked), DECODED, strict=True)
    ]
    return View(*some).decoded(lambda z: halved(encoder.decode_images(z)))


def picture_readers() -> Readers:
    standard = load_protocol("standard")
    training = replace(standard.training, least_steps=300, batch_size=128)
    return Readers(replace(standard, seeds=1, training=training))


def halved(images: Array) -> Array:
    """Every two by two pixels as their mean."""
    count, channels, height, width = images.shape
    blocks = images.reshape(count, channels, height // 2, 2, width // 2, 2)
    return np.asarray(blocks.mean(axis=(3, 5)).round(), np.uint8)


if __name__ == "__main__":
    main()
