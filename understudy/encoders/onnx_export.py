"""An encoder, and a filter behind it, as an ONNX graph for devices without Python.

The graph draws nothing: the filter's noise is an input, which whoever runs the graph fills
with standard normal numbers. Whether they did cannot be seen from outside, and noise that
comes from elsewhere is not the door's; so filtered data from an exported graph carries
**no local claim**, whatever the filter's own claim is.
"""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from understudy.durable import replace_durably
from understudy.encoders.encoder import Encoder
from understudy.errors import UserError
from understudy.nets.vae import split_code

RECORDS, NOISE, LABELS, LATENTS = "records", "noise", "labels", "latents"
DECODED = "decoded"
OPSET = 17


class FilterGraph(Protocol):
    """What a filter offers to be exported: a module, and the widths of its inputs.

    `forward(latents [N, d], noise [N, noise_size], labels [N, label_size])` gives filtered
    latents [N, d]; labels are the private ones as one-hot rows. It must draw nothing.
    """

    @property
    def noise_size(self) -> int: ...

    @property
    def label_size(self) -> int: ...

    def __call__(
        self, latents: torch.Tensor, noise: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor: ...


class EncoderGraph(nn.Module):
    """Records (float in [0, 1]) to latents in the ball, through the filter where there is one.

    decode: give what the decoder makes of them, in [0, 1], in their place.
    """

    def __init__(
        self, encoder: Encoder, filter: FilterGraph | None = None, *, decode: bool = False
    ) -> None:
        super().__init__()
        self.encoder = encoder.encoder
        self.filter = filter
        self.radius = encoder.radius
        self.decoder = encoder.decoder if decode else None
        self.bernoulli = encoder.spec.bernoulli

    def forward(
        self,
        records: torch.Tensor,
        noise: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        mean, _ = split_code(self.encoder(records.clamp(0.0, 1.0)))
        norms = mean.square().sum(dim=1, keepdim=True).sqrt()
        latents = mean * (self.radius / norms.clamp(min=self.radius))
        if self.filter is not None and noise is not None and labels is not None:
            latents = self.filter(latents, noise, labels)
        if self.decoder is None:
            return latents
        output: torch.Tensor = self.decoder(latents)
        return output.sigmoid() if self.bernoulli else output.clamp(0.0, 1.0)


def export_onnx(
    encoder: Encoder, path: Path, filter: FilterGraph | None = None, *, decode: bool = False
) -> Path:
    """Write the graph, whole or not at all.

    Inputs: `records` [N, *shape] float32 in [0, 1]; with a filter also `noise` and
    `labels`. Output: `latents` [N, latent], or with `decode` the records that the decoder makes
    of them, `decoded` [N, *shape]. N may be any number. The graph's metadata hold the encoder's
    digest and say that it carries no local claim.
    """
    if importlib.util.find_spec("onnx") is None:
        raise UserError("exporting to ONNX needs the package onnx; pip install onnx.")
    import onnx

    model = onnx.load_from_string(_traced(encoder, filter, decode))
    for key, value in _metadata(encoder, filter).items():
        model.metadata_props.add(key=key, value=value)
    replace_durably(path, model.SerializeToString())
    return path


def _traced(encoder: Encoder, filter: FilterGraph | None, decode: bool) -> bytes:
    """The graph as torch's tracing exporter writes it, which needs no package but onnx."""
    names = [RECORDS] if filter is None else [RECORDS, NOISE, LABELS]
    output = DECODED if decode else LATENTS
    graph = EncoderGraph(encoder, filter, decode=decode).eval()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        target = Path(folder) / "graph.onnx"
        # torch prefers its newer exporter, which needs a further package and gives the same.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph,
            example_inputs(encoder, 2, filter),
            target,
            input_names=names,
            output_names=[output],
            opset_version=OPSET,
            dynamo=False,
            dynamic_axes={name: {0: "rows"} for name in (*names, output)},
        )
        return target.read_bytes()


def example_inputs(
    encoder: Encoder, rows: int, filter: FilterGraph | None = None
) -> tuple[torch.Tensor, ...]:
    """Inputs of the right shapes, filled with 0.5."""
    shapes: list[tuple[int, ...]] = [encoder.shape]
    if filter is not None:
        shapes += [(filter.noise_size,), (filter.label_size,)]
    return tuple(torch.full((rows, *shape), 0.5) for shape in shapes)


def _metadata(encoder: Encoder, filter: FilterGraph | None) -> Mapping[str, str]:
    """The graph holds the encoder's weights, so the licence of its training data goes along."""
    licence = encoder.provenance.licence
    return {
        "understudy.encoder": encoder.digest,
        "understudy.provenance": encoder.provenance.statement,
        **({} if licence is None else {"understudy.licence of the training data": licence}),
        "understudy.claim": "none: the noise is an input of this graph"
        if filter is not None
        else "none: latents without noise",
    }
