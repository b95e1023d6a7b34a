"""A machine's signature is an SSHSIG that stock OpenSSH checks; nothing else passes for it (I-12)."""

import subprocess
from pathlib import Path

import pytest

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.signer.memory import MemorySigner
from holdfast.errors import Corrupt, Invalid
from holdfast.model import ssh_key
from holdfast.trust import own_signature

KEY, OTHER = MemoryIdentityKey(b"w1".ljust(32)), MemoryIdentityKey(b"w2".ljust(32))
MESSAGE = b"the pulse of w1"


def test_stock_openssh_accepts_it(tmp_path: Path) -> None:
    (tmp_path / "allowed").write_text(f"w1 {KEY.line}\n")
    (tmp_path / "sig").write_text(own_signature.armoured(KEY, MESSAGE, "holdfast-pulse"))
    command = ["ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", "w1", "-n", "holdfast-pulse", "-s", "sig"]
    done = subprocess.run(command, cwd=tmp_path, input=MESSAGE, capture_output=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert subprocess.run(command, cwd=tmp_path, input=b"else", capture_output=True, timeout=20).returncode != 0


def test_it_holds_for_its_message_namespace_and_key_alone() -> None:
    made = own_signature.armoured(KEY, MESSAGE, "holdfast-pulse")
    own_signature.verify(MESSAGE, made, "holdfast-pulse", KEY.line)
    for message, namespace, line in (
        (MESSAGE + b" ", "holdfast-pulse", KEY.line),
        (MESSAGE, "holdfast-joining", KEY.line),
        (MESSAGE, "holdfast-pulse", OTHER.line),
    ):
        with pytest.raises(Corrupt):
            own_signature.verify(message, made, namespace, line)


def test_it_is_what_an_operator_s_signer_would_have_made() -> None:
    signer = MemorySigner(b"w1".ljust(32))
    assert own_signature.armoured(KEY, MESSAGE, "x") == signer.sign(MESSAGE, "x")
    assert KEY.line == ssh_key.line(signer.public_key)


def test_a_key_of_another_type_or_none_is_refused() -> None:
    made = own_signature.armoured(KEY, MESSAGE, "x")
    point = ssh_key.fields(ssh_key.parse(KEY.line))[0]
    hardware = ssh_key.line(ssh_key.from_blob(ssh_key.pack(b"sk-ssh-ed25519@openssh.com", point, b"ssh:")))
    with pytest.raises(Corrupt, match="not sk-"):
        own_signature.verify(MESSAGE, made, "x", hardware)
    with pytest.raises(Invalid):
        own_signature.verify(MESSAGE, made, "x", "ssh-ed25519 AAAA")
