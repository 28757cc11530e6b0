"""Whose a release is: what a digest or a key that the caller brought has to say of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from understudy.errors import UserError
from understudy.release.doubt import UNREADABLE, reason
from understudy.release.manifest import SIGNATURE
from understudy.release.signing import check_signature


@dataclass(frozen=True)
class Voucher:
    """Whether the caller's digest or key vouches for a release, and what must be said."""

    vouched: bool
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_digest(digest: str | None) -> None:
    if digest is not None and not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise UserError(f"digest must be 64 lower-case hexadecimal digits, not {digest!r}.")


def vouch(signature: bytes | None, found: str, digest: str | None, key: Path | None) -> Voucher:
    """Hold the digest that was found against those that were brought and signed.

    signature: the content of `signature.json`, None where there is none. Without digest and key
    nothing vouches: whoever rewrites a release can sign it, too.
    """
    problems, notes = [], []
    if digest is not None and digest != found:
        problems.append(
            f"the digest is {found}, not the {digest} that was given: this is not that release."
        )
    if signature is None:
        if key is not None:
            problems.append(f"the release is not signed, so {key} cannot vouch for it.")
        return Voucher(digest == found, tuple(problems))
    try:
        signer = check_signature(signature, found, key)
    except UNREADABLE as error:
        return Voucher(False, (*problems, reason(error, SIGNATURE)))
    if key is None:
        notes.append(f"signed by the key with fingerprint {signer}, which no --key vouches for.")
    return Voucher(digest == found or key is not None, tuple(problems), tuple(notes))
