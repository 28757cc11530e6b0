"""The Flower app of the collector: asks everybody once, and merges what can be taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid, ServerApp

from understudy.encoders.encoder import Encoder
from understudy.errors import UserError
from understudy.federated.agreement import Agreement
from understudy.federated.collection import check_means, write_collection
from understudy.federated.contribution import Contribution
from understudy.federated.merging import Gathering, Merged
from understudy.federated.messages import contribution_in, question
from understudy.federated.terms import users_in_words

_LOOK_EVERY_S = 0.2


def server_app(
    encoder: Encoder,
    agreement: Agreement,
    out: Path,
    *,
    users: int,
    patience_s: float = 600.0,
    title: str = "Collected from many users",
    signing_key: Path | None = None,
    told: Callable[[Merged], None] | None = None,
) -> ServerApp:
    """An app that writes a collection of what users sent to `out`.

    users: how many devices to wait for. patience_s: for devices to appear, and again for their
        answers; whoever has not answered by then is left out.
    signing_key: the collector's private key, to sign the collection with.
    told: is given what was merged, with who was left out and why.
    """
    check_means(out, title, signing_key)
    app = ServerApp()

    @app.main()
    def collect(grid: Grid, context: Context) -> None:
        del context
        nodes = wait_for(grid, users, patience_s)
        merged = gather(grid, nodes, agreement, patience_s)
        write_collection(out, merged, encoder, title, signing_key)
        (told or say)(merged)

    return app


def say(merged: Merged) -> None:
    """Print to the collector what was taken, and who was left out."""
    print(f"taken: {len(merged)} records of {users_in_words(merged.users)}")
    for one in merged.left_out:
        print(f"left out: {one.name}: {one.reason}")


def wait_for(grid: Grid, users: int, patience_s: float) -> list[int]:
    """The devices that are there when enough are, or when patience ends."""
    until = time.monotonic() + patience_s
    nodes = sorted(grid.get_node_ids())
    while len(nodes) < users and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
        nodes = sorted(grid.get_node_ids())
    if not nodes:
        raise UserError(f"no device appeared within {patience_s:g} s.")
    return nodes


def gather(grid: Grid, nodes: Iterable[int], agreement: Agreement, patience_s: float) -> Merged:
    """Ask each device once; those that fail, decline, keep silent or send garbage are left out.

    Guarantee: what is merged passed the agreement's check, each user's by itself, and nothing a
    device sends can change what is taken of another.
    """
    asked = list(nodes)
    messages = [Message(question(agreement), node, MessageType.TRAIN) for node in asked]
    gathering, silent = Gathering.under(agreement), set(asked)
    for reply in grid.send_and_receive(messages, timeout=patience_s):
        node = reply.metadata.src_node_id
        if node not in silent:
            continue  # a second answer, or one that nobody was asked for
        silent.discard(node)
        gathering.take(f"device {node}", partial(_read, reply, agreement))
    for node in sorted(silent):
        gathering.leave_out(f"device {node}", "it did not answer in time.")
    return gathering.merged()


def _read(reply: Message, agreement: Agreement) -> Contribution:
    if reply.has_error():
        raise UserError("it failed.")
    return contribution_in(reply.content, agreement)
