"""A Flower grid in this process, through which every message passes as bytes and is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from flwr.app import Context, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as Proto
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

Reply = Callable[[Message, Context], Message]


class WatchedGrid(Grid):
    """Devices are calls of message and context; one that is None never answers.

    asked, replies: every message, as it arrived on the other side.
    """

    def __init__(self, devices: Mapping[int, Reply | None]) -> None:
        # As the process of a real server has it; without one Flower makes no message.
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
        self.devices = dict(devices)
        self.asked: list[Message] = []
        self.replies: list[Message] = []
        self.contexts = {
            node: Context(1, node, {"partition-id": node}, RecordDict(), {}) for node in devices
        }

    def get_node_ids(self) -> Iterable[int]:
        return list(self.devices)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        assert timeout is not None, "a server that waits for ever"
        for message in messages:
            self.asked.append(across(message))
            node = message.metadata.dst_node_id
            device = self.devices[node]
            if device is None:
                continue
            reply = across(device(self.asked[-1], self.contexts[node]))
            reply.metadata.__dict__["_src_node_id"] = node
            self.replies.append(reply)
            yield reply

    def set_run(self, run: object) -> None:
        raise NotImplementedError

    @property
    def run(self) -> object:  # type: ignore[override]
        raise NotImplementedError

    def create_message(self, *args: object, **kwargs: object) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError


def across(message: Message) -> Message:
    """What arrives of a message: made into bytes, and read again."""
    message.metadata.__dict__["_message_id"] = message.metadata.message_id or "m"
    return message_from_proto(Proto.FromString(message_to_proto(message).SerializeToString()))
