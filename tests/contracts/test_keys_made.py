"""Keys and identities we make: stock OpenSSH takes them, our own signer opens them, nobody else may read them."""

import stat
import subprocess
from pathlib import Path

import pyrage
import pytest

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.identity import age
from holdfast.adapters.signer import keyfile
from holdfast.errors import Invalid
from holdfast.model import ssh_key
from holdfast.trust import sshsig

PASSPHRASE = "correct horse"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("passphrase", ["", PASSPHRASE], ids=["open", "locked"])
def test_a_key_we_made_signs_and_stock_openssh_takes_it(tmp_path: Path, passphrase: str) -> None:
    path = tmp_path / "new" / "id_ed25519"
    public = keyfile.make(str(path), "ada", passphrase, PosixDisk())
    pub = Path(f"{path}.pub")
    assert pub.read_text() == f"{public} ada\n"
    assert (mode(path.parent), mode(path), mode(pub)) == (0o700, 0o600, 0o644)
    derived = subprocess.run(
        ["ssh-keygen", "-y", "-P", passphrase, "-f", str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert derived.stdout.split()[:2] == public.split()
    passphrases = [passphrase]
    signer = keyfile.KeyfileSigner(str(path), lambda prompt: passphrases.pop())
    sshsig.verify(b"message", signer.sign(b"message", "holdfast-revision"), "holdfast-revision", ssh_key.parse(public))
    assert passphrases == ([] if passphrase else [""])


def test_a_locked_key_does_not_open_without_its_passphrase(tmp_path: Path) -> None:
    path = tmp_path / "recovery"
    keyfile.make(str(path), "recovery", PASSPHRASE, PosixDisk())
    args = ["ssh-keygen", "-y", "-P", "wrong", "-f", str(path)]
    assert subprocess.run(args, capture_output=True, timeout=60).returncode != 0


def test_an_identity_is_made_once_and_then_reused(tmp_path: Path) -> None:
    path = tmp_path / "config" / "holdfast" / "identity.age"
    recipient = age.recipient(str(path), PosixDisk())
    made = path.read_bytes()
    assert (mode(path.parent), mode(path)) == (0o700, 0o600)
    assert age.recipient(str(path), PosixDisk()) == recipient
    assert path.read_bytes() == made
    sealed = pyrage.encrypt(b"secret", [pyrage.x25519.Recipient.from_str(recipient)])
    secret = made.decode().splitlines()[-1]
    assert pyrage.decrypt(sealed, [pyrage.x25519.Identity.from_str(secret)]) == b"secret"


def test_an_identity_of_age_keygen_is_taken(tmp_path: Path) -> None:
    path, identity = tmp_path / "identity.age", pyrage.x25519.Identity.generate()
    path.write_text(f"# created: today\n# public key: {identity.to_public()}\n{identity}\n\n# the end\n")
    assert age.recipient(str(path), PosixDisk()) == str(identity.to_public())


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"# only a remark\n", b"AGE-SECRET-KEY-1CUT", b"\xff\xfe\0", b"age1notasecret\n"]
)
def test_a_damaged_identity_is_kept_and_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "identity.age"
    path.write_bytes(content)
    with pytest.raises(Invalid) as refused:
        age.recipient(str(path), PosixDisk())
    assert refused.value.code == "identity_damaged"
    assert refused.value.remedy == f"move {path} away and repeat the command"
    assert path.read_bytes() == content
