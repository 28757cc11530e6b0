from __future__ import annotations

import pytest
import torch

from tests.data.samples import refused
from tests.encoders.samples import DENSE, blobs
from understudy.encoders.autoencoder_training import (
    Checkpoint,
    Pair,
    Schedule,
    settings_mark,
    train_openly,
)
from understudy.encoders.objective import Objective
from understudy.progress import Silent, Task

CPU = torch.device("cpu")
OBJECTIVE = Objective(DENSE)


class StopAfter(Silent):
    """A Ctrl-C after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def task(self, description, total=None):
        outer, manager = self, super().task(description, total)

        class Stopping:
            def __enter__(self) -> Task:
                manager.__enter__()
                return self

            def __exit__(self, *error):
                return manager.__exit__(*error)

            def advance(self, steps: int = 1) -> None:
                outer.left -= steps
                if outer.left < 0:
                    raise KeyboardInterrupt

            def note(self, text: str) -> None: ...

        return Stopping()


SHORT = Schedule(4, 32, 3e-3)


def trained(schedule=SHORT, progress=None, checkpoint=None, seed=0) -> Pair:
    pair = Pair(DENSE, schedule.learning_rate, seed, CPU)
    train_openly(pair, OBJECTIVE, blobs(129), schedule, seed, progress or Silent(), checkpoint)
    return pair


def weights(pair: Pair) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for m in pair.modules for p in m.parameters()])


def misfit(pair: Pair) -> float:
    records = torch.as_tensor(blobs(64, seed=5).features).float() / 255
    with torch.no_grad():
        made = pair.decoder(pair.encoder(records)[:, : DENSE.latent]).sigmoid()
    return float((made - records).square().mean())


def test_training_brings_the_reconstruction_closer():
    assert misfit(trained(Schedule(30, 32, 1e-2))) < 0.5 * misfit(Pair(DENSE, 1e-3, 0, CPU))


def test_the_seed_decides_everything():
    assert torch.equal(weights(trained()), weights(trained()))
    assert not torch.equal(weights(trained()), weights(trained(seed=1)))


@pytest.mark.parametrize(("every", "kept"), [(3600.0, 10), (0.0, 12)], ids=["epoch", "step"])
def test_a_stopped_training_ends_like_an_uninterrupted_one(tmp_path, every, kept):
    """129 records make 5 steps an epoch; the 13th is cut off before it is kept."""
    keep = Checkpoint(tmp_path / "deep" / "training.safetensors", "same", every)
    with pytest.raises(KeyboardInterrupt):
        trained(progress=StopAfter(12), checkpoint=keep)
    assert keep.load(Pair(DENSE, 1e-3, 0, CPU)) == kept
    assert torch.equal(weights(trained(checkpoint=keep)), weights(trained()))
    assert [p.name for p in keep.path.parent.iterdir()] == ["training.safetensors"]


def test_a_checkpoint_of_other_settings_or_a_damaged_one_is_refused(tmp_path):
    keep = Checkpoint(tmp_path / "training.safetensors", settings_mark("a", 1))
    trained(Schedule(1, 64, 1e-3), checkpoint=keep)
    other = Checkpoint(keep.path, settings_mark("a", 2))
    with refused("training.safetensors", "other settings"):
        trained(checkpoint=other)
    keep.path.write_bytes(keep.path.read_bytes()[:100])
    with refused("training.safetensors", "damaged"):
        trained(checkpoint=keep)


def test_too_few_records_are_refused():
    with refused("1 records"):
        train_openly(
            Pair(DENSE, 1e-3, 0, CPU), OBJECTIVE, blobs(1), Schedule(1, 2, 1e-3), 0, Silent()
        )


def test_a_training_that_diverges_is_refused(tmp_path):
    keep = Checkpoint(tmp_path / "training.safetensors", "same", 3600.0)
    with refused("learning_rate"):
        trained(Schedule(2, 32, 1e30), checkpoint=keep)
    assert not keep.path.exists()
