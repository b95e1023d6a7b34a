"""A machine's own key: made once, kept where only its owner reads it, the same for OpenSSH (I-12)."""

import os
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.identity_key import file
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.errors import Corrupt, HoldfastError, Invalid, NotPermitted
from holdfast.model import ssh_key
from holdfast.ports.identity_key import IdentityKey


def made(folder: Path, seed: int = 1) -> file.FileIdentityKey:
    return file.make(str(folder / "state" / "node.key"), PosixDisk(), SeededRandom(seed))


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_signature_holds_under_the_line(kind: str, tmp_path: Path) -> None:
    key: IdentityKey = made(tmp_path) if kind == "file" else MemoryIdentityKey(b"k" * 32)
    (point,) = ssh_key.fields(ssh_key.parse(key.line))
    signature = key.sign(b"message")
    assert len(signature) == 64
    Ed25519PublicKey.from_public_bytes(point).verify(signature, b"message")


def test_it_is_loaded_as_it_was_made(tmp_path: Path) -> None:
    key, path = made(tmp_path), str(tmp_path / "state" / "node.key")
    found = file.load(path)
    assert found is not None
    assert (found.line, found.sign(b"x")) == (key.line, key.sign(b"x"))
    assert file.load_or_make(path, PosixDisk(), SystemRandom()).line == key.line


def test_none_is_none_and_is_made_once(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "node.key")
    assert file.load(path) is None
    key = file.load_or_make(path, PosixDisk(), SystemRandom())
    assert file.load_or_make(path, PosixDisk(), SystemRandom()).line == key.line


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    made(tmp_path)
    path = tmp_path / "state" / "node.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(NotPermitted, match="other users"):
            file.load(str(path))


def test_openssh_and_the_library_read_it(tmp_path: Path) -> None:
    key = file.make(str(tmp_path / "k"), PosixDisk(), SystemRandom())
    said = subprocess.run(["ssh-keygen", "-y", "-f", tmp_path / "k"], capture_output=True, text=True, timeout=60)
    assert said.stdout.split()[:2] == key.line.split(), said.stderr
    assert load_ssh_private_key((tmp_path / "k").read_bytes(), None)


def test_no_byte_of_the_file_can_change_unnoticed(tmp_path: Path) -> None:
    key, path = made(tmp_path), tmp_path / "state" / "node.key"
    good = path.read_bytes()
    for at in range(0, len(good), 3):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(Corrupt):
            found = file.load(str(path))
            assert found is not None
            found.sign(b"x")  # a damaged private half is noticed before it signs anything
    for odd in (b"", good[:-1], good[:100], good + b"\n", b"\xff" * 10, good * 20):
        path.write_bytes(odd)
        with pytest.raises(Corrupt):
            file.load(str(path))
    path.write_bytes(good)
    assert getattr(file.load(str(path)), "line", "") == key.line


@pytest.mark.parametrize("kind", ["ecdsa", "rsa", "ed25519"])
def test_a_key_that_is_not_a_machine_s_is_refused(kind: str, tmp_path: Path) -> None:
    path, extra = tmp_path / "k", ["-N", "secret" if kind == "ed25519" else ""]
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-f", path, *extra], check=True, timeout=60)
    with pytest.raises(Corrupt):
        file.load(str(path))


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "state" / "node.key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("link", "pipe", "folder"):
        with pytest.raises(HoldfastError):
            file.load(str(tmp_path / name))


def test_the_private_half_is_never_shown(tmp_path: Path) -> None:
    key = made(tmp_path)
    assert repr(key) == f"FileIdentityKey({key.line})"


def test_a_seed_has_one_length() -> None:
    with pytest.raises(Invalid):
        MemoryIdentityKey(b"short")
