"""The private part that all diffusion methods here share: DP-SGD on a denoiser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.data.schema import Schema
from understudy.methods.contract import Context
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.methods.diffusion.planning import BAR, TRAINING, speed_of
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.methods.diffusion.synthesizer import DiffusionSynthesizer
from understudy.nets.sizes import image_shape
from understudy.privacy.plan.plan import Plan

if TYPE_CHECKING:
    from understudy.privacy.door.private_records import PrivateRecords


def begin(
    config: DiffusionConfig, private: PrivateRecords, context: Context, who: str
) -> tuple[DenoiserTraining, bool]:
    """A denoiser for these records, and whether it goes on from an earlier start."""
    shape, classes = image_shape(private.shape, who), len(private.schema.classes)
    spec = config.network(shape, classes)
    training = DenoiserTraining(config, spec, context.seed, context.device)
    state = context.restore()
    if state is not None:
        training.load(state)
    return training, state is not None


def finish(
    training: DenoiserTraining, private: PrivateRecords, plan: Plan, context: Context
) -> DiffusionSynthesizer:
    """The steps that the plan has left, each one a point to go on from; then the synthesizer.

    Guarantee: as `DPSGDSession.step`; nothing but its noised gradients reaches the weights.
    """
    config = training.config
    speed = speed_of(config, training.spec, context.device)
    sgd = private.dp_sgd(plan, [training.network], training.loss, training.draws, speed, TRAINING)
    for step in sgd.steps(BAR):
        sgd.step()
        training.advance(step, config.steps, config.learning_rate)
        context.checkpoint(training.snapshot)
    return synthesizer_of(training, private.schema)


def synthesizer_of(training: DenoiserTraining, schema: Schema) -> DiffusionSynthesizer:
    """What a denoiser, trained as far as it is, draws."""
    config = training.config
    return DiffusionSynthesizer(
        training.spec, training.average, config.preconditioning, config.drawing, schema
    )
