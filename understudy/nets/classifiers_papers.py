"""The small classifiers with which papers of this field measured their synthetic sets.

Each is the network of the paper's published code for 28-pixel images; other sizes change
only the first linear layer.
"""

from __future__ import annotations

from math import prod

from torch import nn

from understudy.nets.classifiers_parts import Builder, Shape, channels_last, image_shape


def lenet5(shape: Shape, classes: int) -> nn.Module:
    """LeNet-5 with ReLU and max pooling, as GS-WGAN and DP-GAN-DPAC train it.

    Convolutions of 5x5 with 6 channels (padded by 2 up to 28 pixels) and 16 (not padded),
    each before ReLU and 2x2 pooling, then 120, 84 and the classes.
    """
    channels, height, width = image_shape("lenet-5", shape, least=12)
    padding = 2 if min(height, width) <= 28 else 0
    left = [((side + 2 * padding - 4) // 2 - 4) // 2 for side in (height, width)]
    return channels_last(
        nn.Sequential(
            *(nn.Conv2d(channels, 6, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(16 * prod(left), 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()),
            nn.Linear(84, classes),
        )
    )


def elu_mlp(width: int) -> Builder:
    """One hidden layer with ELU: how the generative filter's paper reads latents."""

    def build(shape: Shape, classes: int) -> nn.Module:
        return nn.Sequential(
            nn.Flatten(), nn.Linear(prod(shape), width), nn.ELU(), nn.Linear(width, classes)
        )

    return build


def mlp_100(shape: Shape, classes: int) -> nn.Module:
    """One hidden layer of 100 with ReLU: DP-Sinkhorn, DPDM, and scikit-learn's default."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(prod(shape), 100), nn.ReLU(), nn.Linear(100, classes)
    )


def three_convolutions(name: str, *, whole_channels: bool) -> Builder:
    """The CNN of DP-Sinkhorn, which drops whole channels, and of DPDM, which drops values.

    Convolutions of 3x3, not padded, with 32, 64 and 128 channels; 2x2 max pooling, ReLU and
    dropout 0.5 after the first two, ReLU after the third; then 128, dropout 0.5, classes.
    """

    def build(shape: Shape, classes: int) -> nn.Module:
        channels, height, width = image_shape(name, shape, least=18)
        dropped = nn.Dropout2d if whole_channels else nn.Dropout
        left = [((side - 2) // 2 - 2) // 2 - 2 for side in (height, width)]
        return channels_last(
            nn.Sequential(
                *(nn.Conv2d(channels, 32, 3), nn.MaxPool2d(2), nn.ReLU(), dropped(0.5)),
                *(nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU(), dropped(0.5)),
                *(nn.Conv2d(64, 128, 3), nn.ReLU(), nn.Flatten()),
                *(nn.Linear(128 * prod(left), 128), nn.ReLU(), nn.Dropout(0.5)),
                nn.Linear(128, classes),
            )
        )

    return build


def two_convolutions(shape: Shape, classes: int) -> nn.Module:
    """The CNN of G-PATE and DataLens.

    Convolutions of 3x3, not padded, with 32 and 64 channels and ReLU; 2x2 max pooling and
    dropout 0.2 between them, dropout 0.25 after; then 64 and the classes.
    """
    channels, height, width = image_shape("cnn-datalens", shape)
    left = [(side - 2) // 2 - 2 for side in (height, width)]
    return channels_last(
        nn.Sequential(
            *(nn.Conv2d(channels, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2)),
            *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Dropout(0.25), nn.Flatten()),
            *(nn.Linear(64 * prod(left), 64), nn.ReLU(), nn.Linear(64, classes)),
        )
    )
