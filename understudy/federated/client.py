"""The Flower app of a user's device: trains the user's own filter there, and answers once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from understudy.durable import replace_durably
from understudy.encoders.citation import Citation
from understudy.encoders.encoder import Encoder
from understudy.errors import UserError
from understudy.federated.agreement import Agreement
from understudy.federated.messages import agreement_asked, answer, declined
from understudy.federated.user import User

_STATE = "understudy"


@dataclass(frozen=True)
class Device:
    """What a device holds: the encoder, the user, and where it remembers having answered.

    receipt: a file that is written before anything is sent. Where it exists nothing is sent again,
        in this run or another: a second answer would have fresh noise, and two of them tell more.
    """

    encoder: Encoder
    user: User
    receipt: Path | None = None


def client_app(device_of: Callable[[Context], Device]) -> ClientApp:
    """An app that answers with one contribution of the device's user.

    Guarantee: the answer is a contribution that passed the agreement's own check, or a refusal
    without a reason. No error leaves in words, since Flower would send them to the server and
    they can speak of the records; they are printed on the device.
    """
    app = ClientApp()

    @app.train()
    def take_part(message: Message, context: Context) -> Message:
        return Message(_answered(message.content, context, device_of), reply_to=message)

    return app


def _answered(
    content: RecordDict, context: Context, device_of: Callable[[Context], Device]
) -> RecordDict:
    try:
        agreement = agreement_asked(content)
        device = device_of(context)
        return _contributed(agreement, device, context)
    except Exception as error:  # noqa: BLE001 - whatever it is, its words must not travel
        print(f"nothing was sent: {error}")
        return declined()


def _contributed(agreement: Agreement, device: Device, context: Context) -> RecordDict:
    if _STATE in context.state or (device.receipt is not None and device.receipt.exists()):
        raise UserError("this device has answered before; a second answer would tell more.")
    if agreement.encoder != Citation.of(device.encoder):
        raise UserError("the server asks for another encoder than the one on this device.")
    sent = answer(device.user.contribute(device.encoder, agreement))
    context.state[_STATE] = ConfigRecord({"answered": True})
    if device.receipt is not None:
        replace_durably(device.receipt, f"answered run {context.run_id}\n".encode())
    return sent
