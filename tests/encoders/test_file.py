from __future__ import annotations

import json
import math
import struct
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load, save

from tests.data.samples import refused
from tests.encoders.samples import DENSENET, SPECS, encoder_of
from understudy.encoders import file as file_module
from understudy.encoders.file import FORMAT, encoder_digest, read_encoder, write_encoder
from understudy.encoders.provenance import Provenance


def metadata(content: bytes) -> dict[str, object]:
    (length,) = struct.unpack("<Q", content[:8])
    return dict(json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["understudy"]))


def rewrite(path, change=lambda facts: facts, tensors=lambda t: t) -> None:
    content = path.read_bytes()
    text = json.dumps(change(metadata(content)))
    path.write_bytes(save(tensors(load(content)), {"understudy": text}))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "encoder.safetensors"
    write_encoder(path, encoder_of())
    return path


@pytest.mark.parametrize("name", SPECS)
def test_what_is_written_is_read(tmp_path, name):
    encoder = encoder_of(SPECS[name])
    digest = write_encoder(tmp_path / "e.safetensors", encoder)
    again = read_encoder(tmp_path / "e.safetensors", digest)
    assert again.digest == digest == encoder.digest == encoder_digest(encoder)
    assert (again.spec, again.radius, again.schema) == (encoder.spec, 2.0, encoder.schema)
    assert again.provenance == encoder.provenance
    records = torch.rand(5, *encoder.shape)
    assert torch.equal(again.encode(records), encoder.encode(records))
    assert torch.equal(again.decode(encoder.encode(records)), again.decode(again.encode(records)))
    assert [p.name for p in tmp_path.iterdir()] == ["e.safetensors"]


def test_batch_statistics_travel_too(tmp_path):
    encoder = encoder_of(replace(DENSENET, norm="batch"))
    with torch.no_grad():
        encoder.encoder.train()(torch.rand(8, 3, 16, 16))
    encoder.encoder.eval()
    write_encoder(tmp_path / "e.safetensors", encoder)
    records = torch.rand(3, 3, 16, 16)
    again = read_encoder(tmp_path / "e.safetensors")
    assert torch.equal(again.encode(records), encoder.encode(records))


def test_another_version_is_refused(path):
    rewrite(path, lambda facts: {**facts, "format": "understudy-encoder/2"})
    with refused(path.name, "understudy-encoder/2", FORMAT):
        read_encoder(path)


@pytest.mark.parametrize("field", ["radius", "provenance", "schema", "spec"])
def test_changed_facts_are_refused(path, field):
    other = {
        "radius": 100.0,
        "provenance": Provenance("nothing private", "public", 0.0).to_json(),
        "schema": {"attributes": []},
        "spec": {"kind": "dense"},
    }
    rewrite(path, lambda facts: {**facts, field: other[field]})
    with refused(path.name, "changed after it was written"):
        read_encoder(path)


def test_a_changed_weight_is_refused(path):
    def nudged(tensors):
        name = sorted(tensors)[0]
        return {**tensors, name: tensors[name] + 1e-3}

    rewrite(path, tensors=nudged)
    with refused(path.name, "changed after it was written"):
        read_encoder(path)


def test_a_flipped_bit_anywhere_is_refused(path):
    content = path.read_bytes()
    for at in range(8, len(content), max(1, len(content) // 40)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with refused(path.name):
            read_encoder(path)


def test_a_digest_that_was_asked_for_is_required(path):
    right = read_encoder(path).digest
    assert read_encoder(path, right.upper()).digest == right
    with refused("digest", right):
        read_encoder(path, "0" * 64)


@pytest.mark.parametrize("content", [b"", b"\x00" * 7, b"\xff" * 64, save({"a": torch.ones(1)})])
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    with refused(path.name, "no encoder file"):
        read_encoder(path)


def test_a_missing_file_is_named(tmp_path):
    with refused("nothing.safetensors", "filter init"):
        read_encoder(tmp_path / "nothing.safetensors")


def sealed(path, change) -> None:
    """Change the facts and the digest with them, as somebody might who means harm."""
    content = path.read_bytes()
    facts = metadata(content)
    facts.pop("digest")
    facts = change(facts)
    facts["digest"] = file_module._digest(load(content), facts)
    path.write_bytes(save(load(content), {"understudy": json.dumps(facts)}))


def test_weights_of_another_network_are_refused(path):
    def wider(facts):
        return {**facts, "spec": {**facts["spec"], "hidden": [2**40]}}

    sealed(path, wider)
    with refused(path.name, "damaged"):
        read_encoder(path)


def test_a_provenance_that_contradicts_itself_is_refused(path):
    revealed = Provenance("records of a test", "revealed", math.inf).to_json()
    sealed(path, lambda facts: {**facts, "provenance": {**revealed, "epsilon": 1.0}})
    with refused("revealed", "epsilon"):
        read_encoder(path)
    kinder = {**revealed, "statement": "It costs nothing."}
    sealed(path, lambda facts: {**facts, "provenance": kinder})
    with refused(path.name, "statement"):
        read_encoder(path)


def test_nothing_is_left_where_the_disk_refuses(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_encoder(tmp_path / "e.safetensors", encoder_of())
    assert list(tmp_path.iterdir()) == []
