from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the apps need Flower: pip install understudy[federated]")

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)

from tests.federated.inspection import uninvited
from tests.federated.scene import digits_encoder, encoder, records, user
from tests.federated.watched_grid import WatchedGrid
from understudy.errors import UserError
from understudy.federated import apps
from understudy.federated.agreement import Agreement
from understudy.federated.client import Device, client_app
from understudy.federated.collection_check import verify_any
from understudy.federated.messages import agreement_asked, answer, contribution_in, question
from understudy.federated.server import gather, server_app, wait_for
from understudy.federated.user import User
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.local.channel import LocalChannel
from understudy.release.signing import make_keys

CHOICES = {1: ("tone", ("row",)), 2: ("row", ("side",)), 3: ("side", ()), 4: ("tone", ("side",))}


def users(home: Path | None = None) -> dict[int, User]:
    """home: for account books, where no test has set one."""
    found = {n: user(n, hide, keep, 40 + n) for n, (hide, keep) in CHOICES.items()}
    channel = LocalChannel(2.0, 1.0, 1e-5, {"row": 1.0}, ("side",))
    book = Book.open("the fifth user's", home)
    return found | {5: User(records(45, 5), None, channel=channel, book=book)}


def honest(encoder_, home=None):
    everybody = users(home)
    return client_app(lambda c: Device(encoder_, everybody[int(c.node_config["partition-id"])]))


def adding(make):
    """A device that adds a record to what an honest one sends."""

    def device(message, context):
        reply = honest(encoder())(message, context)
        make(reply.content, users()[context.node_id])
        return reply

    return device


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    made = encoder()
    agreement = Agreement.of(made)
    home = tmp_path_factory.mktemp("home")
    grid = WatchedGrid(dict.fromkeys(CHOICES | {5: None}, honest(made, home)))
    merged = gather(grid, grid.get_node_ids(), agreement, 5.0)
    return made, grid, merged


def test_users_with_different_choices_are_merged(watched):
    _, _, merged = watched
    everybody = users()
    assert (merged.users, merged.left_out) == (5, ())
    assert len(merged) == sum(len(u.records) for u in everybody.values())
    assert {n: int((c >= 0).sum()) for n, c in merged.labels.items()} == {
        "row": 41 + 45,
        "side": 42 + 44 + 45,
    }


def test_no_message_holds_what_was_not_agreed_on(watched):
    made, grid, _ = watched
    assert len(grid.replies) == 5
    for reply in grid.replies:
        who = users()[reply.metadata.src_node_id]
        assert uninvited(reply, who, made) == []
    for message in grid.asked:
        assert list(message.content.keys()) == ["agreement"]


def label(content, who):
    codes = np.ascontiguousarray(who.records.attributes["tone"], np.int64)
    content.array_records["sent"]["label:tone"] = Array(
        "int64", codes.shape, "understudy.raw", codes.tobytes()
    )


def smuggled(content, who):
    """The hidden label in the place of a kept one."""
    codes = np.ascontiguousarray(who.records.attributes["tone"], np.int64)
    content.array_records["sent"]["label:row"] = Array(
        "int64", codes.shape, "understudy.raw", codes.tobytes()
    )


def raw_latents(content, who):
    raw = encoder().encode(who.records.features).numpy()
    content.array_records["sent"]["features"] = Array(
        "float32", raw.shape, "understudy.raw", raw.tobytes()
    )


def metrics(content, who):
    del who
    content["metrics"] = MetricRecord({"adversary_accuracy": 0.7})


def word(content, who):
    del who
    said = json.loads(str(content.config_records["statement"]["json"]))
    content.config_records["statement"]["json"] = json.dumps({**said, "distortion": 2.9})


def setting(content, who):
    del who
    content.config_records["statement"]["note"] = "tone=yes"


@pytest.mark.parametrize("fault", [label, smuggled, raw_latents, metrics, word, setting])
def test_the_inspection_sees_a_client_that_sends_more(fault):
    made = encoder()
    agreement = Agreement.of(made)
    grid = WatchedGrid({1: adding(fault), 2: honest(made)})
    merged = gather(grid, [1, 2], agreement, 5.0)
    assert uninvited(grid.replies[0], users()[1], made)
    assert uninvited(grid.replies[1], users()[2], made) == []
    if fault not in (smuggled, raw_latents):  # those two only the sender can know
        assert [one.name for one in merged.left_out] == ["device 1"]
        assert merged.users == 1


def erroneous(message, context):
    del context
    return Message(Error(code=0, reason="it broke"), reply_to=message)


def reply_with(make):
    return lambda message, context: Message(make(context), reply_to=message)


def sent(**arrays):
    return ArrayRecord({n: Array(*a) for n, a in arrays.items()})


GARBAGE = {
    "nothing": lambda _: RecordDict(),
    "no arrays": lambda _: RecordDict({"statement": ConfigRecord({"json": "{}"})}),
    "no json": lambda _: RecordDict({"statement": ConfigRecord({"json": "["}), "sent": sent()}),
    "a number for a text": lambda _: RecordDict(
        {"statement": ConfigRecord({"json": 3}), "sent": sent()}
    ),
    "an empty statement": lambda _: RecordDict(
        {"statement": ConfigRecord({"json": "{}"}), "sent": sent()}
    ),
    "a pickle": lambda _: _damaged("features", Array("object", (1,), "pickle", b"\x80\x04.")),
    "too few bytes": lambda _: _damaged(
        "features", Array("float32", (60, 3), "understudy.raw", b"\0" * 12)
    ),
    "a size of its own": lambda _: _damaged(
        "features", Array("float32", (1 << 30, 3), "understudy.raw", b"")
    ),
    "values that are none": lambda _: _damaged(
        "features", Array("float32", (60, 3), "understudy.raw", b"\xff" * 720)
    ),
    "codes beyond the classes": lambda _: _damaged(
        "label:row", Array("int64", (60,), "understudy.raw", b"\7" * 480)
    ),
}


def _damaged(name, array):
    content = answer(user().contribute(made := encoder(), Agreement.of(made)))
    content.array_records["sent"][name] = array
    return content


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_of_one_user_harms_nobody(kind):
    made = encoder()
    grid = WatchedGrid({1: reply_with(GARBAGE[kind]), 2: honest(made), 3: erroneous, 4: None})
    merged = gather(grid, [1, 2, 3, 4], Agreement.of(made), 5.0)
    assert merged.users == 1
    assert len(merged) == len(users()[2].records)
    assert [one.name for one in merged.left_out] == ["device 1", "device 3", "device 4"]
    assert all(len(one.reason) < 400 for one in merged.left_out)


def test_a_user_of_another_encoder_declines_without_a_word(capsys):
    made, other = encoder(), encoder(radius=1.0)
    grid = WatchedGrid({1: honest(other), 2: honest(made)})
    merged = gather(grid, [1, 2], Agreement.of(made), 5.0)
    assert [one.reason for one in merged.left_out] == ["the user declined."]
    assert "another encoder" in capsys.readouterr().out


def test_why_a_user_cannot_take_part_stays_on_the_device(capsys):
    """The reason says how well kept labels guess the hidden one: it speaks of the records."""
    made = encoder()
    mine = records(60)
    mine = type(mine)(
        mine.features, {**mine.attributes, "side": mine.attributes["tone"]}, mine.schema
    )
    app = client_app(lambda _: Device(made, User(mine, Choice(("tone",), ("side",)))))
    grid = WatchedGrid({1: app, 2: honest(made)})
    merged = gather(grid, [1, 2], Agreement.of(made), 5.0)
    assert merged.users == 1
    assert "no filter can hide" in capsys.readouterr().out
    reply = grid.replies[0]
    assert not reply.has_error()
    assert {k: dict(v) for k, v in reply.content.items()} == {"declined": {"declined": True}}


def test_a_gate_that_closes_on_a_device_is_not_heard_elsewhere(capsys):
    """A filter that hardly filters: the device keeps what it found, and declines."""
    made = encoder()
    still = replace(user(), distortion=Distortion("kl", 1e-6))
    grid = WatchedGrid({1: client_app(lambda _: Device(made, still)), 2: honest(made)})
    merged = gather(grid, [1, 2], Agreement.of(made), 5.0)
    assert [(one.name, one.reason) for one in merged.left_out] == [
        ("device 1", "the user declined.")
    ]
    assert "near copies" in capsys.readouterr().out
    reply = grid.replies[0]
    assert {k: dict(v) for k, v in reply.content.items()} == {"declined": {"declined": True}}


def test_a_device_answers_once(tmp_path):
    made = encoder()
    app = honest(made)
    grid = WatchedGrid({1: app, 2: app})
    agreement = Agreement.of(made)
    assert gather(grid, [1], agreement, 5.0).users == 1
    again = gather(grid, [1, 2], agreement, 5.0)
    assert [one.name for one in again.left_out] == ["device 1"]
    receipt = tmp_path / "receipt"
    kept = client_app(lambda _: Device(made, user(), receipt))
    assert gather(WatchedGrid({1: kept}), [1], agreement, 5.0).users == 1
    assert receipt.exists()
    with pytest.raises(UserError, match="declined"):
        gather(WatchedGrid({1: kept}), [1], agreement, 5.0)


def test_an_answer_that_comes_twice_counts_once():
    made = encoder()
    content = answer(user().contribute(made, agreement := Agreement.of(made)))
    grid = WatchedGrid({n: reply_with(lambda _: content) for n in (1, 2)})
    merged = gather(grid, [1, 2], agreement, 5.0)
    assert merged.users == 1
    assert "same as device 1" in merged.left_out[0].reason


def test_question_and_answer_survive_the_way():
    made = encoder()
    agreement = Agreement.of(made, epsilon=3.0, delta=1e-4)
    assert agreement_asked(question(agreement)) == agreement
    mine = user().contribute(made, agreement)
    back = contribution_in(answer(mine), agreement)
    assert np.array_equal(back.records.features, mine.records.features)
    assert np.array_equal(back.records.attributes["row"], mine.records.attributes["row"])


def test_the_server_app_writes_the_collection(tmp_path, capsys):
    made = encoder()
    grid = WatchedGrid({1: honest(made), 2: None})
    make_keys(tmp_path / "key", tmp_path / "public")
    app = server_app(
        made,
        Agreement.of(made),
        tmp_path / "out",
        users=2,
        patience_s=5.0,
        signing_key=tmp_path / "key",
    )
    app(grid, grid.contexts[1])
    assert verify_any(tmp_path / "out", key=tmp_path / "public").authenticated
    assert "left out: device 2" in capsys.readouterr().out


def test_a_server_without_devices_gives_up():
    with pytest.raises(UserError, match="no device"):
        wait_for(WatchedGrid({}), 1, 0.0)


def test_the_apps_of_real_devices_go_by_their_settings(tmp_path):
    path = digits_encoder(tmp_path / "e.safetensors")
    settings = {"encoder": str(path), "data": "digits", "hide": "label", "part": "test", "steps": 5}
    grid = WatchedGrid({1: apps.client, 2: apps.client})
    grid.contexts[1].node_config.update(settings)
    run = {"encoder": str(path), "out": str(tmp_path / "out"), "users": 2, "patience": 5}
    apps.server(grid, Context(1, 0, {}, RecordDict(), run))
    table = json.loads((tmp_path / "out" / "collection.json").read_text())
    assert (table["users"], table["kind"]) == (1, "empirical")
    local = grid.contexts[2].node_config
    local.update({**settings, "epsilon": 1.0, "delta": 1e-6})
    run |= {"out": str(tmp_path / "local"), "epsilon": 2.0}
    apps.server(grid, Context(1, 0, {}, RecordDict(), run))
    table = json.loads((tmp_path / "local" / "collection.json").read_text())
    assert (table["users"], table["kind"], table["epsilon"]) == (1, "local", 1.0)
    totals = Book.open("digits").total(1e-6)
    assert totals.local[0][1].epsilon == pytest.approx(1.0, rel=1e-6)
    assert math.isinf(totals.local_released.epsilon)
    assert [run.is_empirical for run in totals.runs] == [True, False]
