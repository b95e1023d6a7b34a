"""A signer for security keys, through `ssh-keygen -Y sign`. ssh-keygen itself prompts for the PIN."""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cached_property
from shlex import quote

from holdfast.adapters.signer.keyfile import public_half
from holdfast.errors import Corrupt, Failed, NotPermitted, Unreachable
from holdfast.model.ssh_key import PublicKey
from holdfast.trust import sshsig

TIMEOUT_S = 60.0


class SshKeygenSigner:
    def __init__(self, path: str, timeout_s: float = TIMEOUT_S, environment: Mapping[str, str] | None = None) -> None:
        self._path = os.path.abspath(path)
        self._timeout_s = timeout_s
        self._environment = environment

    @cached_property
    def public_key(self) -> PublicKey:
        return public_half(self._path)

    def sign(self, message: bytes, namespace: str) -> str:
        sshsig.namespace_bytes(namespace)
        with tempfile.TemporaryDirectory(prefix="holdfast-sign-") as private_directory:  # mode 0700
            # A file and not standard input, because ssh-keygen reads the PIN from standard input.
            message_path = os.path.join(private_directory, "message")
            with open(message_path, "xb") as file:
                file.write(message)
            self._run(sign_args(self._path, namespace, message_path))
            armoured = _read_signature(message_path + ".sig")
        self._check(message, armoured, namespace)
        return armoured

    def _run(self, args: list[str]) -> None:
        # On a terminal the person must see ssh-keygen's request for a touch; elsewhere its output goes into the error.
        stderr = None if os.isatty(2) else subprocess.PIPE
        try:
            done = subprocess.run(
                args,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=self._environment,
                timeout=self._timeout_s,
            )
        except subprocess.TimeoutExpired:
            message = f"the security key of {self._path} was not touched within {self._timeout_s:g} s"
            raise Unreachable(message, remedy="plug it in, sign again, and touch it when it blinks") from None
        except FileNotFoundError:
            raise Failed("ssh-keygen is not installed", remedy="apt install openssh-client") from None
        if done.returncode != 0:
            words = (done.stderr or b"see above").decode(errors="replace").strip()[-300:]
            remedy = (
                f"plug the security key in and test it: echo test | ssh-keygen -Y sign -n test -f {quote(self._path)}"
            )
            raise Failed(f"ssh-keygen did not sign with {self._path}: {words}", remedy=remedy)

    def _check(self, message: bytes, armoured: str, namespace: str) -> None:
        try:
            sshsig.verify(message, armoured, namespace, self.public_key)
        except Corrupt as trouble:
            remedy = f"check that {self._path}.pub is its public half, or create a new key: ssh-keygen -t ed25519-sk"
            raise NotPermitted(f"the signature of {self._path} is invalid: {trouble.message}", remedy=remedy) from None


def sign_args(path: str, namespace: str, message_path: str) -> list[str]:
    return ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", path, message_path]


def _read_signature(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace", newline="") as file:
            return file.read(sshsig.ARMOUR_CHARS_MAX + 1)
    except FileNotFoundError:
        raise Failed("ssh-keygen wrote no signature", remedy="update OpenSSH to 8.2 or newer") from None
