"""Everything that the author of a method, or of a mechanism, imports, from one place.

What is named here keeps its meaning between minor versions; anything else inside the package may
move. `docs/writing-a-method.md` shows one whole method of each shape.
"""

from understudy.data.records import Images, Records
from understudy.data.schema import Attribute, Schema
from understudy.data.weights_file import WeightsFile
from understudy.errors import UserError
from understudy.methods.conditions import condition_codes
from understudy.methods.config import setting
from understudy.methods.contract import (
    ChecksPublic,
    Conditions,
    Context,
    Facts,
    FixedSet,
    FixedSize,
    Forecasting,
    Loop,
    LoopKind,
    Method,
    Movable,
    Parts,
    PublicInputs,
    RecordMap,
    Sampler,
)
from understudy.methods.info import MethodInfo, PublicRecords, PublicWeights
from understudy.methods.record_set import RecordSet
from understudy.methods.saved_network import load_weights, read_description, save_network
from understudy.methods.synthesizer import GeneratorSynthesizer
from understudy.nets.generators import GeneratorSpec
from understudy.nets.seeding import built, stream
from understudy.privacy.door.aggregate import Aggregate
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.dpsgd.loss import Loss, Models, Values
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State, load_state, save_state
from understudy.privacy.local.gaussian import LocalNoise
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    ClippedAggregate,
    EnsembleGradients,
    EnsembleVotes,
    LocalRelease,
    Mechanism,
    NoisyHistogram,
    NoisySum,
    OneOfShardsGradients,
    Reveal,
)
from understudy.privacy.plan.mechanisms.checks import check_counts, check_positive, check_rates
from understudy.privacy.plan.mechanisms.unit_sum import UnitSum
from understudy.privacy.plan.plan import Plan, Spend
from understudy.privacy.sums.clipping import Blocks

__all__ = [
    "DPSGD",
    "Aggregate",
    "Attribute",
    "Batch",
    "Blocks",
    "ChecksPublic",
    "ClippedAggregate",
    "Conditions",
    "Context",
    "EnsembleGradients",
    "EnsembleVotes",
    "Facts",
    "FixedSet",
    "FixedSize",
    "Forecasting",
    "GeneratorSpec",
    "GeneratorSynthesizer",
    "Images",
    "LocalNoise",
    "LocalRelease",
    "Loop",
    "LoopKind",
    "Loss",
    "Mechanism",
    "Method",
    "MethodInfo",
    "Models",
    "Movable",
    "NoisyHistogram",
    "NoisySum",
    "OneOfShardsGradients",
    "Parts",
    "Plan",
    "PrivateRecords",
    "PublicInputs",
    "PublicRecords",
    "PublicWeights",
    "RecordMap",
    "RecordSet",
    "Records",
    "Reveal",
    "Sampler",
    "Schema",
    "Speed",
    "Spend",
    "State",
    "UnitSum",
    "UserError",
    "Values",
    "WeightsFile",
    "built",
    "check_counts",
    "check_positive",
    "check_rates",
    "condition_codes",
    "load_state",
    "load_weights",
    "read_description",
    "save_network",
    "save_state",
    "setting",
    "stream",
]
