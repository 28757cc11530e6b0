from __future__ import annotations

import json
import os

import pytest

pytest.importorskip("flwr", reason="the apps need Flower: pip install understudy[federated]")
pytest.importorskip("ray", reason="Flower's simulation needs ray")

from flwr.serverapp import Grid

from tests.data.samples import refused
from tests.federated.inspection import uninvited
from tests.federated.scene import encoder, user
from understudy.federated import server
from understudy.federated.agreement import Agreement
from understudy.federated.client import Device
from understudy.federated.collection_check import verify_any
from understudy.federated.collection_claim import CLAIM
from understudy.federated.simulation import partition_of, simulate

WISHES = (("tone", ("row",)), ("row", ()), ("side", ("tone", "row")), ("tone", ("side",)))


def member(number: int):
    hide, keep = WISHES[number % len(WISHES)]
    return user(number, hide, keep, count=40 + number)


def test_users_are_apart():
    with refused("at least 2"):
        simulate(encoder(), Agreement.of(encoder()), lambda _: None, None, users=2, processes=1)


def test_a_simulation_without_a_collection_is_one_sentence(tmp_path, monkeypatch):
    """Where Flower ends without our server's own error."""
    monkeypatch.setattr("flwr.simulation.run_simulation", lambda *_, **__: None)
    made = encoder()
    with refused("without a collection"):
        simulate(made, Agreement.of(made), lambda _: None, tmp_path / "out", users=2)


@pytest.mark.slow
def test_everybody_who_declines_is_named(tmp_path):
    made = encoder()

    def device_of(context):
        raise RuntimeError(f"no: {context}")

    with refused("nobody sent anything", "the user declined; device"):
        simulate(made, Agreement.of(made), device_of, tmp_path / "out", users=2, patience_s=60)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_users_in_processes_of_their_own_train_and_are_merged(tmp_path, monkeypatch):
    """The last user's device breaks; every message of the others is looked into."""
    made, replies, places = encoder(), [], tmp_path / "places"
    places.mkdir()
    gather = server.gather

    def watching(grid, nodes, agreement, patience_s):
        class Watched:
            def send_and_receive(self, messages, *, timeout):
                for reply in grid.send_and_receive(messages, timeout=timeout):
                    replies.append(reply)
                    yield reply

        assert isinstance(grid, Grid)
        return gather(Watched(), nodes, agreement, patience_s)

    def device_of(context):
        number = partition_of(context)
        (places / str(number)).write_text(str(os.getpid()))
        if number == 4:
            raise RuntimeError("this device's records are broken: tone=yes")
        return Device(made, member(number))

    monkeypatch.setattr(server, "gather", watching)
    merged = simulate(
        made, Agreement.of(made), device_of, tmp_path / "out", users=5, patience_s=300
    )
    assert merged.users == 4
    assert [one.reason for one in merged.left_out] == ["the user declined."]
    assert len(merged) == sum(40 + n for n in range(4))
    workers = {path.read_text() for path in places.iterdir()}
    assert len(workers) >= 2
    assert str(os.getpid()) not in workers
    assert verify_any(tmp_path / "out").ok
    assert json.loads((tmp_path / "out" / CLAIM).read_text())["kind"] == "empirical"
    by_count = {40 + n: member(n) for n in range(4)}
    for reply in replies:
        said = reply.content.config_records.get("statement")
        who = by_count[json.loads(said["json"])["count"]] if said else member(4)
        assert uninvited(reply, who, made) == []
    assert len(replies) == 5
