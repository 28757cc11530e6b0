"""An encoder taught in three parts: packed here, taught where only torch is, joined here."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

from tests.data.samples import refused
from tests.scripts import FOLDER, load_script
from understudy.data.load import Dataset
from understudy.data.records import Images
from understudy.data.schema import Attribute, Schema
from understudy.encoders.file import read_encoder
from understudy.methods.vae import DenseNetVAE
from understudy.progress import Silent

script = load_script("encoder_away")
job_module = sys.modules["face_job"]
AGES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70+")
SCHEMA = Schema(
    (
        Attribute("gender", ("male", "female")),
        Attribute("age", AGES),
        Attribute("race", ("white", "black", "asian", "indian", "other")),
    ),
    label="gender",
)
TINY = ("latent=2", "growth=2", "depth=10", "widths=4,4,4,4,4", "epochs=2", "batch=16")


def jpeg(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def drawn(folder: Path, count: int) -> tuple[Path, Dataset]:
    """A folder `utkface` of drawn pictures, and what a loader would make of it."""
    rng, place = np.random.default_rng(0), folder / "utkface"
    (place / "UTKFace").mkdir(parents=True)
    images, codes = [], rng.integers(0, 2, (count, 3))
    for i in range(count):
        content = jpeg(rng.integers(0, 256, (16, 16, 3), np.uint8))
        (place / "UTKFace" / f"1_0_0_{i:04}.jpg").write_bytes(content)
        images.append(np.asarray(Image.open(io.BytesIO(content))).transpose(2, 0, 1))
    columns = {name: codes[:, i].astype(np.int64) for i, name in enumerate(SCHEMA.names)}
    records = Images(np.stack(images), columns, SCHEMA)
    half = np.arange(count) < count // 2
    parts = {"train": records.select(half), "test": records.select(~half)}
    return place, Dataset("utkface", parts, True, "drawn by a test", "for research only")


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place, dataset = drawn(tmp_path, 120)
    monkeypatch.setenv("UNDERSTUDY_DATA", "elsewhere")
    monkeypatch.setattr("understudy.data.load.load", lambda _: dataset)
    words = [w for setting in TINY for w in ("--set", setting)]
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        assert script.main(["pack", str(place), "-o", str(tmp_path / "job"), *words]) == 0
    return tmp_path / "job"


def teach_bare(job: Path, out: Path, runner: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", runner, str(FOLDER / "encoder_away.py"), "teach", str(job)]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, "-o", str(out), "--device", "cpu", *more],
        cwd=FOLDER.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def told(job: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((job / "job.json").read_text())
    return found


def test_it_is_taught_where_only_torch_is_and_joined_at_home(packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "faces.safetensors"
    done = teach_bare(packed, out, "tests.bench.scripts.bare_with_pillow")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "36 pictures decoded" in done.stdout
    home = tmp_path / "home" / "faces.safetensors"
    assert script.main(["join", str(out.parent), "-o", str(home)]) == 0
    encoder = read_encoder(home)
    assert encoder.digest in done.stdout
    assert encoder.provenance.claim == "revealed"
    assert math.isinf(encoder.provenance.epsilon)
    assert str(encoder.provenance.licence).startswith("for research only; a model of it is not")
    assert "encoder's share" in encoder.provenance.trained_on
    assert encoder.schema.names == ("gender", "age", "race")
    assert encoder.encode(np.zeros((2, 3, 16, 16), np.uint8)).shape == (2, 2)


def test_it_is_the_training_of_filter_init(packed: Path, tmp_path: Path) -> None:
    """The same weights as `learn_openly` on the same records, wherever they were decoded."""
    out = tmp_path / "faces.safetensors"
    assert script.main(["teach", str(packed), "-o", str(out), "--device", "cpu"]) == 0
    images = job_module.decoded(packed, (3, 16, 16))
    config = script.build_config(DenseNetVAE.Config, told(packed)["config"])
    records = script.Records(images, {}, Schema(()))
    provenance = script.Provenance.from_json(told(packed)["provenance"])
    wanted = DenseNetVAE().learn_openly(
        config, records, provenance, 0, torch.device("cpu"), Silent()
    )
    found = read_encoder(out)
    assert found.digest == replace(wanted, schema=replace(SCHEMA, label=None)).digest


def test_out_of_time_goes_on_here_and_elsewhere(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole" / "faces.safetensors"
    other = tmp_path / "other"
    for name in ("job.json", "jpegs.npy", "ends.npy", "means.npy"):
        other.mkdir(exist_ok=True)
        (other / name).write_bytes((packed / name).read_bytes())
    assert script.main(["teach", str(packed), "-o", str(whole), "--device", "cpu"]) == 0
    (packed / script.CHECKPOINT).unlink()
    monkeypatch.setattr(script, "_SAVE_EVERY", 0.0)
    monkeypatch.setattr(job_module, "PIECE_BYTES", 20_000)
    cut = tmp_path / "cut" / "faces.safetensors"
    words = ["-o", str(cut), "--device", "cpu"]
    monkeypatch.setattr(script._Ticks, "advance", stopping_after(2))
    assert script.main(["teach", str(packed), *words]) == script.UNFINISHED
    monkeypatch.undo()
    assert not cut.exists()
    pieces = sorted(cut.parent.iterdir())
    assert len(pieces) > 1
    for piece in pieces:
        (other / piece.name).write_bytes(piece.read_bytes())
    for job in (packed, other):
        assert script.main(["teach", str(job), *words]) == 0
        assert read_encoder(cut).digest == read_encoder(whole).digest
    pieces[-1].unlink()
    with refused("pieces"):
        job_module.joined_pieces(cut.parent, script.CHECKPOINT)


def test_a_stopped_training_can_be_settled_and_says_so(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = tmp_path / "settled.safetensors"
    assert script.main(["settle", str(packed), "-o", str(settled)]) == 2
    monkeypatch.setattr(script, "_SAVE_EVERY", 0.0)
    monkeypatch.setattr(script._Ticks, "advance", stopping_after(2))
    words = ["-o", str(tmp_path / "out" / "faces.safetensors"), "--device", "cpu"]
    assert script.main(["teach", str(packed), *words]) == script.UNFINISHED
    assert script.main(["settle", str(packed), "-o", str(settled)]) == 0
    encoder = read_encoder(settled)
    assert "; stopped after 2 of " in encoder.provenance.settings
    assert math.isinf(encoder.provenance.epsilon)
    assert encoder.schema.names == ("gender", "age", "race")
    kept = safetensors.torch.load_file(packed / script.CHECKPOINT)
    weights = encoder.encoder.state_dict()
    assert all(torch.equal(kept[f"encoder.{k}"], v) for k, v in weights.items())
    assert script.main(["settle", str(packed), "-o", str(settled)]) == 2


def stopping_after(steps: int) -> Any:
    left = [steps]

    def advance(self: Any, done: int = 1) -> None:
        del self
        left[0] -= done
        if left[0] < 0:
            raise script.OutOfTimeError

    return advance


def test_the_clock_stops_in_time_and_says_how_fast_it_goes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(script.time, "monotonic", lambda: now[0])
    clock = script.Clock(30.0)
    clock.records_a_step = 24
    with clock.task("teaching", 1000) as bar:
        bar.advance(100)
        for _ in range(20):
            now[0] += 1.0
            bar.advance()
        now[0] = 31.0
        with pytest.raises(script.OutOfTimeError):
            bar.advance()
    first = capsys.readouterr().out.splitlines()[0]
    assert "110/1,000, 24 pictures/s, 14.8 min left" in first


def test_what_cannot_be_taught_is_refused(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def says(words: Sequence[str], wanted: str) -> None:
        assert script.main(words) == 2
        assert wanted in capsys.readouterr().err

    out = str(tmp_path / "e.safetensors")
    says(["teach", str(tmp_path / "nothing"), "-o", out], "cannot be read as a job")
    says(["teach", str(packed), "-o", "e.pt"], "NAME.safetensors")
    says(["pack", str(tmp_path), "-o", out], "called utkface")
    says(["join", str(tmp_path), "-o", out], "neither")
    means = np.load(packed / "means.npy", allow_pickle=False)
    np.save(packed / "means.npy", means[:, ::-1])
    says(["teach", str(packed), "-o", out, "--device", "cpu"], "otherwise than they were packed")
    bare = teach_bare(packed, tmp_path / "e.safetensors", "tests.bench.scripts.bare_script")
    assert bare.returncode == 2
    assert "needs Pillow or torchvision" in bare.stderr
    assert not Path(out).exists()


def test_damaged_pieces_make_no_encoder(packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "faces.safetensors"
    assert script.main(["teach", str(packed), "-o", str(out), "--device", "cpu"]) == 0
    content = out.read_bytes()
    out.unlink()
    job_module.write_pieces(out.parent, out.name, content)
    home = tmp_path / "faces.safetensors"
    assert script.main(["join", str(out.parent), "-o", str(home)]) == 0
    assert home.read_bytes() == content
    home.unlink()
    job_module.write_pieces(out.parent, out.name, content[:-9] + b"x" * 9)
    assert script.main(["join", str(out.parent), "-o", str(home)]) == 2
    assert not home.exists()


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("UNDERSTUDY_DATA"), reason="needs $UNDERSTUDY_DATA")
def test_the_published_faces_can_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of the share is found again by its pixels, and comes out as the loader has it."""
    place = Path(os.environ["UNDERSTUDY_DATA"]) / "utkface"
    monkeypatch.setenv("UNDERSTUDY_DATA", str(place.parent))
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        words = ["pack", str(place), "-o", str(tmp_path / "job"), "--limit", "40"]
        assert script.main(words) == 0
    images = job_module.decoded(tmp_path / "job", (3, 64, 64))
    assert len(images) == 40
    licence = told(tmp_path / "job")["provenance"]["licence"]
    assert licence.startswith("non-commercial research only; a model of it is not to be handed on")
    mark = sys.modules["faces"].content_mark(script.Records(images, {}, Schema(())))
    assert mark in told(tmp_path / "job")["provenance"]["trained_on"]
