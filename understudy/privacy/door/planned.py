"""Finding in the plan what a method asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from understudy.errors import PrivacyError
from understudy.privacy.plan.mechanisms import Mechanism

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door

M = TypeVar("M", bound=Mechanism)


def find_planned(
    door: Door, part: str, kind: type[M], name: str | None = None, **fields: object
) -> M:
    """The mechanism of this kind and part in the plan, with exactly these numbers, unspent; the
    first of several, where none is named.

    Guarantee: of this very class. A subclass, of another package say, may state another sensitivity
    or other events than the door's own operation has; `release` asks it for them by name.
    """
    if name is not None:
        fields["name"] = name
    fitting = [
        m
        for m in door.plan.mechanisms
        if type(m) is kind
        and m.part == part
        and all(getattr(m, field) == value for field, value in fields.items())
    ]
    unspent = [m for m in fitting if door.wants(m)]
    if not unspent:
        asked = ", ".join(f"{k}={v}" for k, v in fields.items())
        raise PrivacyError(
            f"the plan holds no unspent {kind.kind}({asked}) on part {part!r}; "
            "say it in spend() first."
        )
    return unspent[0]
