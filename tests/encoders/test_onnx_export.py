from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.data.samples import refused
from tests.encoders.samples import SPECS, encoder_of
from understudy.encoders.onnx_export import EncoderGraph, export_onnx

onnx = pytest.importorskip("onnx", reason="the export needs onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="to run what was exported")


class LinearFilter(nn.Module):
    """z + A [noise; labels], as the paper's filter."""

    noise_size, label_size = 3, 2

    def __init__(self, latent: int) -> None:
        super().__init__()
        self.matrix = nn.Linear(self.noise_size + self.label_size, latent, bias=False)

    def forward(self, latents, noise, labels):
        return latents + self.matrix(torch.cat([noise, labels], dim=1))


def run(path, **inputs: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(str(path))
    given = {name: value.numpy() for name, value in inputs.items()}
    return torch.from_numpy(session.run(["latents"], given)[0])


@pytest.mark.parametrize("name", SPECS)
def test_the_graph_gives_the_latents_of_the_encoder(tmp_path, name):
    encoder = encoder_of(SPECS[name], radius=0.5)
    path = export_onnx(encoder, tmp_path / "encoder.onnx")
    records = torch.rand(7, *encoder.shape)
    found = run(path, records=records)
    assert torch.allclose(found, encoder.encode(records), atol=1e-4)
    assert found.norm(dim=1).max() <= 0.5 * (1 + 1e-5)
    assert [p.name for p in tmp_path.iterdir()] == ["encoder.onnx"]


def test_the_noise_of_a_filter_is_an_input(tmp_path):
    encoder = encoder_of()
    path = export_onnx(encoder, tmp_path / "filter.onnx", behind := LinearFilter(3))
    records, noise = torch.rand(5, *encoder.shape), torch.randn(5, 3)
    labels = torch.eye(2)[[0, 1, 0, 1, 1]]
    wanted = behind(encoder.encode(records), noise, labels).detach()
    assert torch.allclose(run(path, records=records, noise=noise, labels=labels), wanted, atol=1e-4)
    silent = run(path, records=records, noise=0 * noise, labels=labels)
    assert not torch.allclose(silent, wanted, atol=1e-2)


def test_the_graph_says_whose_it_is_and_that_it_claims_nothing(tmp_path):
    encoder = encoder_of()
    model = onnx.load(export_onnx(encoder, tmp_path / "filter.onnx", LinearFilter(3)))
    said = {prop.key: prop.value for prop in model.metadata_props}
    assert said["understudy.encoder"] == encoder.digest
    assert said["understudy.claim"].startswith("none")
    drawing = [n.op_type for n in model.graph.node if n.op_type.startswith("Random")]
    assert drawing == []


def test_the_licence_of_the_training_data_goes_along(tmp_path):
    encoder = encoder_of()
    bound = replace(encoder.provenance, licence="for research only")
    for name, given in (("free", encoder), ("bound", encoder.with_provenance(bound))):
        model = onnx.load(export_onnx(given, tmp_path / f"{name}.onnx"))
        values = [prop.value for prop in model.metadata_props]
        assert ("for research only" in values) == (name == "bound")


def test_the_graph_clips_as_the_encoder_does():
    encoder, records = encoder_of(radius=0.1), torch.rand(9, 1, 8, 8)
    assert torch.allclose(EncoderGraph(encoder)(records), encoder.encode(records), atol=1e-6)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnx" else found(name)
    )
    with refused("onnx", "pip install"):
        export_onnx(encoder_of(), tmp_path / "e.onnx")
    assert list(tmp_path.iterdir()) == []
