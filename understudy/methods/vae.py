"""Learning a public encoder: a variational autoencoder, by DP-SGD or on revealed records.

It fills the Method contract, so that planning, ledger, account book and resuming are those
of every run; what it leaves is an `Encoder`, not a generator, and it is not listed among
the methods that `understudy synthesize` takes. `understudy filter init` runs it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch

from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.encoders.autoencoder_training import (
    Checkpoint,
    Pair,
    Schedule,
    settings_mark,
    train_openly,
)
from understudy.encoders.encoder import Encoder
from understudy.encoders.objective import PROJECTIONS, Objective
from understudy.encoders.provenance import CENTRAL, REVEALED, Provenance
from understudy.encoders.specs import Spec
from understudy.errors import UserError
from understudy.methods.config import config_to_json, setting
from understudy.methods.contract import Context, Facts, PublicInputs
from understudy.methods.info import MethodInfo
from understudy.nets.densenet import NORMS, DenseNetSpec
from understudy.nets.vae import ACTIVATIONS, DenseSpec
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.plan.mechanisms import DPSGD, Mechanism, Reveal
from understudy.privacy.plan.plan import Plan, Spend
from understudy.progress import Progress

if TYPE_CHECKING:
    from understudy.privacy.door.private_records import PrivateRecords

TRAINING, REVEALING = "encoder", "records for the encoder"
_PAPER = (
    "Chen, Navidi, Ermon, Rajagopal: Distributed generation of privacy preserving data with "
    "user customization (2019), arXiv:1904.09415"
)
_MARGIN = 3.0
"""A prior sample is farther out than sqrt(latent) + 3 less than once in 10^4 draws."""


class TrainingConfig(Protocol):
    """What every encoder's settings have."""

    @property
    def epochs(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def clip(self) -> float: ...
    @property
    def radius(self) -> float: ...
    @property
    def latent(self) -> int: ...


@dataclass(frozen=True)
class DenseVAEConfig:
    """Settings of the dense encoder. None is measured on private records."""

    latent: int = setting(10, "values of a latent", low=1)
    hidden: tuple[int, ...] = setting((300, 300), "sizes of the hidden layers", low=1)
    activation: str = setting("elu", "of the hidden layers", choices=tuple(ACTIVATIONS))
    radius: float = setting(0.0, "of the latents' ball; 0: sqrt(latent) + 3", low=0.0)
    epochs: int = setting(12, "passes over the records", low=1)
    batch: int = setting(100, "records of a step (by DP-SGD: on average)", low=1)
    learning_rate: float = setting(1e-3, "Adam's rate", low=1e-7, high=1.0)
    kl_weight: float = setting(1.0, "weight of the divergence from the prior", low=0.0)
    clip: float = setting(1.0, "by DP-SGD: longest gradient of one record", low=1e-9)


@dataclass(frozen=True)
class DenseNetVAEConfig:
    """Settings of the densenet encoder. None is measured on private records."""

    latent: int = setting(50, "values of a latent", low=1)
    growth: int = setting(12, "channels that a layer adds", low=1)
    depth: int = setting(82, "4 + 6 x the layers of a block", low=10)
    widths: tuple[int, ...] = setting((256, 256, 128, 64, 32), "decoder's channels", low=1)
    norm: str = setting("batch", "normalisation; DP-SGD needs group", choices=NORMS)
    radius: float = setting(0.0, "of the latents' ball; 0: sqrt(latent) + 3", low=0.0)
    epochs: int = setting(10, "passes over the records", low=1)
    batch: int = setting(24, "records of a step (by DP-SGD: on average)", low=1)
    learning_rate: float = setting(1e-3, "Adam's rate", low=1e-7, high=1.0)
    kl_weight: float = setting(0.02, "weight of the divergence (the paper's gamma)", low=0.0)
    distance: int = setting(2, "norm of the reconstruction error, 1 or 2", low=1, high=2)
    penalty: float = setting(0.01, "weight of the Lipschitz penalty (kappa)", low=0.0)
    steepest: float = setting(20.0, "slope that is not penalised (C_L)", low=0.0)
    projection: str = setting(
        "random",
        "of the Jacobian: random (Frobenius norm) or ones (the paper's sum)",
        choices=PROJECTIONS,
    )
    clip: float = setting(1.0, "by DP-SGD: longest gradient of one record", low=1e-9)


class _EncoderMethod(ABC):
    """What both kinds share: planning, and the three ways of learning."""

    info: ClassVar[MethodInfo]
    Config: ClassVar[type]
    Output: ClassVar[type] = Encoder

    def __init__(self, reveal: str | None = None, trained_on: str = "private records") -> None:
        """reveal: the reason for reading private records freely; None learns by DP-SGD.
        trained_on: the data's name, for the encoder's provenance."""
        self._reveal = reveal
        self._trained_on = trained_on

    @abstractmethod
    def spec(self, config: Any, shape: tuple[int, ...]) -> Spec:
        """The networks for records of this shape."""

    @abstractmethod
    def objective(self, config: Any, spec: Spec) -> Objective:
        """What they are taught."""

    def spend(self, config: Any, facts: Facts) -> Spend:
        """Epochs as Poisson steps at rate batch / declared count; or one reveal."""
        spec, count = self.spec(config, facts.shape), facts.counts["train"]
        if self._reveal is not None:
            reason = self._reveal
            return lambda _: (Reveal(REVEALING, reason),)
        self._refuse_mixing(spec)
        rate = facts.rate(config.batch)
        steps = math.ceil(config.epochs * count / config.batch)

        def planned(sigma: float) -> Sequence[Mechanism]:
            return (DPSGD(TRAINING, steps, rate, config.clip, sigma),)

        return planned

    def fit(
        self,
        config: Any,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Encoder:
        """Learn from the part `train`.

        Guarantee: by DP-SGD, that of the plan's Poisson-sampled Gaussians under adding or
        removing one unit: records enter only through the loss of each, whose randomness is
        the door's, and clipping is over both networks together. With a reveal: none.
        """
        del public
        private = parts["train"]
        if self._reveal is not None:
            records = private.reveal(self._reveal)
            keep = Checkpoint(context.folder / "encoder.safetensors", _mark(config, context.seed))
            pair = self._learn(
                config, records, context.seed, context.device, context.progress, keep
            )
        else:
            pair = self._learn_privately(config, private, plan, context)
        return self._finished(config, pair, private, self._provenance(plan))

    def learn_openly(
        self,
        config: Any,
        records: Records,
        provenance: Provenance,
        seed: int,
        device: torch.device,
        progress: Progress,
        checkpoint: Checkpoint | None = None,
    ) -> Encoder:
        """Learn from public records, which costs nothing."""
        pair = self._learn(config, records, seed, device, progress, checkpoint)
        return self._finished(config, pair, records, provenance)

    def as_kept(
        self,
        config: Any,
        shape: tuple[int, ...],
        provenance: Callable[[int], Provenance],
        seed: int,
        checkpoint: Checkpoint,
    ) -> Encoder:
        """The encoder as a stopped training left it; `provenance` is given the steps it had.

        Guarantee: none, as `learn_openly`.
        """
        pair = Pair(self.spec(config, shape), config.learning_rate, seed, torch.device("cpu"))
        steps = checkpoint.load(pair)
        if not steps:
            raise UserError(f"there is no checkpoint {checkpoint.path}; teach first.")
        nobody = Records(np.empty((0, *shape), np.uint8), {}, Schema(()))
        return self._finished(config, pair, nobody, provenance(steps))

    def _learn(
        self,
        config: TrainingConfig,
        records: Records,
        seed: int,
        device: torch.device,
        progress: Progress,
        checkpoint: Checkpoint | None,
    ) -> Pair:
        spec = self.spec(config, records.shape)
        pair = Pair(spec, config.learning_rate, seed, device)
        schedule = Schedule(config.epochs, config.batch, config.learning_rate)
        objective = self.objective(config, spec)
        train_openly(pair, objective, records, schedule, seed, progress, checkpoint)
        return pair

    def _learn_privately(
        self, config: TrainingConfig, private: PrivateRecords, plan: Plan, context: Context
    ) -> Pair:
        spec = self.spec(config, private.shape)
        pair = Pair(spec, config.learning_rate, context.seed, context.device)
        objective = self.objective(config, spec)
        # A penalty on slopes is differentiated twice, which of the backends vmap alone can do.
        speed = Speed(backend="vmap") if objective.penalty else Speed()
        state = context.restore()
        if state is not None:
            pair.load(state)
        sgd = private.dp_sgd(plan, pair.modules, objective, objective.draws, speed, TRAINING)
        for _ in sgd.steps("training the encoder"):
            sgd.step()
            pair.optimizer.step()
            context.checkpoint(pair.snapshot)
        return pair

    def _finished(
        self,
        config: TrainingConfig,
        pair: Pair,
        data: Records | PrivateRecords,
        provenance: Provenance,
    ) -> Encoder:
        for module in pair.modules:
            module.cpu().requires_grad_(False)
        schema = replace(data.schema, label=None, sensitive=(), utility=())
        return Encoder(
            self.spec(config, data.shape),
            ball_radius(config),
            pair.encoder,
            pair.decoder,
            schema,
            provenance,
        )

    def _provenance(self, plan: Plan) -> Provenance:
        if self._reveal is not None:
            return Provenance(self._trained_on, REVEALED, math.inf, plan.delta)
        return Provenance(
            self._trained_on, CENTRAL, plan.epsilon, plan.delta, plan.accountant, plan.relation
        )

    def _refuse_mixing(self, spec: Spec) -> None:
        if isinstance(spec, DenseNetSpec) and spec.norm == "batch":
            raise UserError(
                "batch normalisation mixes the records of a batch, which DP-SGD cannot have; "
                "add --set norm=group."
            )


class DenseVAE(_EncoderMethod):
    """The dense variational autoencoder, for small images and tables of values in [0, 1]."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="dense-vae",
        summary="a dense variational autoencoder with Bernoulli outputs",
        paper=_PAPER,
        family="encoder",
        mechanism="DP-SGD on encoder and decoder",
        changed_for_soundness=(
            "Latents are clipped to a ball of a declared radius; the paper's are unbounded, so "
            "its sensitivity L does not exist.",
            "Trained on private records only by DP-SGD, or the claim says epsilon infinite.",
        ),
    )
    Config: ClassVar[type] = DenseVAEConfig

    def spec(self, config: DenseVAEConfig, shape: tuple[int, ...]) -> Spec:
        return DenseSpec(shape, config.latent, config.hidden, config.activation)

    def objective(self, config: DenseVAEConfig, spec: Spec) -> Objective:
        return Objective(spec, config.kl_weight)


class DenseNetVAE(_EncoderMethod):
    """The densely connected encoder with a Lipschitz penalty on the decoder, for photographs."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="densenet-vae",
        summary="a densely connected encoder, its decoder kept from being steep",
        paper=_PAPER,
        family="encoder",
        mechanism="DP-SGD on encoder and decoder",
        changed_for_soundness=(
            *DenseVAE.info.changed_for_soundness,
            "The penalty bounds the Jacobian's Frobenius norm by a random projection; the "
            "paper's sum over pixels bounds the slope of the brightness.",
        ),
    )
    Config: ClassVar[type] = DenseNetVAEConfig

    def spec(self, config: DenseNetVAEConfig, shape: tuple[int, ...]) -> Spec:
        return DenseNetSpec(
            shape, config.latent, config.growth, config.depth, config.widths, config.norm
        )

    def objective(self, config: DenseNetVAEConfig, spec: Spec) -> Objective:
        return Objective(
            spec,
            config.kl_weight,
            config.distance,
            config.penalty,
            config.steepest,
            config.projection,
        )


def ball_radius(config: TrainingConfig) -> float:
    """The declared radius: a constant of the settings, never measured on records."""
    return config.radius or math.sqrt(config.latent) + _MARGIN


def _mark(config: Any, seed: int) -> str:
    return settings_mark(config_to_json(config), seed)
