import json
import stat
import sys
from pathlib import Path

import pytest

from understudy.errors import UserError
from understudy.release.signing import check_signature, make_keys, read_public_key, sign
from understudy.release.strict_json import canonical_bytes

DIGEST = "ab" * 32


def test_signature_is_checked_against_digest_and_key(
    keys: tuple[Path, Path], tmp_path: Path
) -> None:
    signature = sign(DIGEST, keys[0])
    assert len(check_signature(signature, DIGEST, keys[1])) == 16
    assert check_signature(signature, DIGEST, None) == check_signature(signature, DIGEST, keys[1])
    with pytest.raises(UserError, match="signs the digest"):
        check_signature(signature, "cd" * 32, keys[1])
    make_keys(tmp_path / "other.pem", tmp_path / "other.pub")
    with pytest.raises(UserError, match="another key"):
        check_signature(signature, DIGEST, tmp_path / "other.pub")


def test_every_part_of_a_signature_matters(keys: tuple[Path, Path]) -> None:
    signature = json.loads(sign(DIGEST, keys[0]))
    for name in signature:
        changed = dict(signature)
        first = changed[name][0]
        changed[name] = ("1" if first != "1" else "2") + changed[name][1:]
        with pytest.raises(UserError):
            check_signature(canonical_bytes(changed), DIGEST, keys[1])
    with pytest.raises(UserError, match="canonical form"):
        check_signature(json.dumps(signature).encode(), DIGEST, keys[1])
    signature["signature"] = "00" * 64
    with pytest.raises(UserError, match="valid signature"):
        check_signature(canonical_bytes(signature), DIGEST, None)


def test_every_bit_of_a_signature_file_matters(keys: tuple[Path, Path]) -> None:
    """Exhaustive: capital hexadecimal digits, too, are another file than the one signed."""
    good = sign(DIGEST, keys[0])
    for position in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            with pytest.raises(UserError):
                check_signature(bytes(bad), DIGEST, None)


def test_private_key_is_kept_from_others(keys: tuple[Path, Path], tmp_path: Path) -> None:
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    loose = tmp_path / "loose.pem"
    loose.write_bytes(keys[0].read_bytes())
    loose.chmod(0o644)
    with pytest.raises(UserError, match="chmod 600"):
        sign(DIGEST, loose)


def test_wrong_key_files_are_one_sentence(keys: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be made"):
        make_keys(keys[0], tmp_path / "new.pub")
    with pytest.raises(UserError, match=r"none\.pem does not exist"):
        sign(DIGEST, tmp_path / "none.pem")
    with pytest.raises(UserError, match="not a readable public key"):
        read_public_key(keys[0])
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("hello")
    garbage.chmod(0o600)
    with pytest.raises(UserError, match="private key in PEM"):
        sign(DIGEST, garbage)


def test_without_the_package_the_extra_is_named(
    keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = sign(DIGEST, keys[0])
    for name in [n for n in sys.modules if n.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    for act in (
        lambda: sign(DIGEST, keys[0]),
        lambda: read_public_key(keys[1]),
        lambda: check_signature(signature, DIGEST, None),
    ):
        with pytest.raises(UserError, match=r"understudy\[sign\]"):
            act()
