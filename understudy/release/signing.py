"""Signing a release: an Ed25519 signature over its digest, in `signature.json`.

The signature lies outside the manifest, since it covers it. It says who vouches for a
release; the public key must reach the reader by another way than the release itself.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import UserError
from understudy.release.strict_json import Fields, canonical_bytes, parse_object

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

FORMAT = "understudy-signature/1"
_ALGORITHM = "ed25519"
_INSTALL = "signatures need the package 'cryptography'; install understudy[sign]."


def make_keys(private: Path, public: Path) -> None:
    """A new pair as PEM files; the private one is readable by its owner alone."""
    if private.resolve() == public.resolve():
        raise UserError(f"the two keys need two files; {private} was named for both.")
    for path in (private, public):
        if path.exists() or not path.parent.is_dir():
            reason = "it exists already" if path.exists() else f"{path.parent} is no folder"
            raise UserError(f"the key file {path} cannot be made: {reason}; name another.")
    try:
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise UserError(_INSTALL) from error
    key = Ed25519PrivateKey.generate()
    pem = form.Encoding.PEM
    secret = key.private_bytes(pem, form.PrivateFormat.PKCS8, form.NoEncryption())
    known = key.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    for path, content, mode in ((private, secret, 0o600), (public, known, 0o644)):
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            raise UserError(f"the key file {path} cannot be made: {error.strerror}.") from error
        with os.fdopen(handle, "wb") as file:
            file.write(content)


def check_signing_key(key: Path) -> None:
    """Raise a `UserError` unless `sign` could use this key; for asking before the work."""
    _private_key(key)


def sign(digest: str, key: Path) -> bytes:
    """The content of `signature.json` for a release with this digest."""
    private = _private_key(key)
    return canonical_bytes(
        {
            "format": FORMAT,
            "algorithm": _ALGORITHM,
            "digest": digest,
            "public_key": private.public_key().public_bytes_raw().hex(),
            "signature": private.sign(_message(digest)).hex(),
        }
    )


def check_signature(data: bytes, digest: str, key: Path | None) -> str:
    """Raise a `UserError` unless this signs `digest`, by `key` if one is given.

    Gives the fingerprint of the key that signed. Without `key` this shows only that
    somebody signed: the public key in the file is then the forger's to choose.
    """
    where = "signature.json"
    fields = Fields(parse_object(data, where), where)
    fields.one_of("format", (FORMAT,))
    fields.one_of("algorithm", (_ALGORITHM,))
    signed, public_hex = fields.hexadecimal("digest"), fields.hexadecimal("public_key")
    signature = fields.hexadecimal("signature", 128)
    fields.end()
    if canonical_bytes(parse_object(data, where)) != data:
        raise UserError(f"{where} is not in its canonical form.")
    if signed != digest:
        raise UserError(f"{where} signs the digest {signed}, but this release has {digest}.")
    public = bytes.fromhex(public_hex)
    if key is not None and read_public_key(key).public_bytes_raw() != public:
        raise UserError(f"{where} was made with another key than {key}.")
    _check(public, signature, digest)
    return fingerprint(public)


def fingerprint(public: bytes) -> str:
    """A short name for a public key, to be read out over the telephone."""
    return hashlib.sha256(public).hexdigest()[:16]


def read_public_key(path: Path) -> Ed25519PublicKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError as error:
        raise UserError(_INSTALL) from error
    _refuse_missing(path)
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a readable public key in PEM form.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise UserError(f"{path} must hold an Ed25519 public key.")
    return key


def _private_key(path: Path) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise UserError(_INSTALL) from error
    _refuse_missing(path)
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise UserError(f"the signing key {path} can be read by others; run chmod 600 on it.")
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is not a readable, unencrypted private key in PEM form."
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError(f"{path} must hold an Ed25519 private key.")
    return key


def _refuse_missing(key: Path) -> None:
    if not key.exists():
        raise UserError(f"the key file {key} does not exist; `understudy keygen` makes a pair.")


def _check(public: bytes, signature: str, digest: str) -> None:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise UserError(f"signature.json cannot be checked: {_INSTALL}") from error
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(
            bytes.fromhex(signature), _message(digest)
        )
    except (InvalidSignature, ValueError) as error:
        raise UserError("signature.json does not hold a valid signature.") from error


def _message(digest: str) -> bytes:
    """What is signed; the prefix keeps it from meaning anything elsewhere."""
    return f"{FORMAT}\n{digest}\n".encode("ascii")
