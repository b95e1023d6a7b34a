"""A signer that uses an ssh-agent. Every request has a time limit; every reply is verified."""

import os
import socket
import time

from holdfast.errors import Corrupt, Failed, Invalid, NotPermitted, Unreachable
from holdfast.model import ssh_key
from holdfast.model.ssh_key import PublicKey
from holdfast.trust import sshsig

REPLY_BYTES_MAX = 256 * 1024
IDENTITIES_MAX = 2048
_LIST_TIMEOUT_S = 5.0
_SIGN_TIMEOUT_S = 60.0  # a person may have to confirm or touch a security key
_FAILURE, _LIST, _LIST_ANSWER, _SIGN, _SIGN_ANSWER = 5, 11, 12, 13, 14
_RSA_SHA2_512 = 4
_START = 'start one and add your key: eval "$(ssh-agent)" && ssh-add'


def identities(socket_path: str) -> tuple[PublicKey, ...]:
    """The agent's keys of supported types. A locked agent offers none."""
    reply = _exchange(socket_path, bytes([_LIST]), _LIST_TIMEOUT_S)
    try:
        return _listed(_body(reply, _LIST_ANSWER))
    except ValueError as trouble:
        raise _nonsense(str(trouble)) from None


class AgentSigner:
    def __init__(self, socket_path: str, key: PublicKey, timeout_s: float = _SIGN_TIMEOUT_S) -> None:
        self.public_key = key
        self._socket_path = socket_path
        self._timeout_s = timeout_s

    def sign(self, message: bytes, namespace: str) -> str:
        request = sign_request(self.public_key, sshsig.signed_data(message, namespace))
        reply = _exchange(self._socket_path, request, self._timeout_s)
        if reply[:1] == bytes([_FAILURE]):
            raise self._refused()
        try:
            (signature_blob,) = ssh_key.strings(_body(reply, _SIGN_ANSWER))
        except ValueError as trouble:
            raise _nonsense(str(trouble)) from None
        armoured = sshsig.armour(self.public_key, namespace, signature_blob, "sha512")
        self._check(message, armoured, namespace)
        return armoured

    def _check(self, message: bytes, armoured: str, namespace: str) -> None:
        # An old agent signs an RSA request with SHA-1; report it here rather than at the hub.
        try:
            sshsig.verify(message, armoured, namespace, self.public_key)
        except Corrupt as trouble:
            remedy = "use a newer ssh-agent, or sign with the key file itself"
            raise NotPermitted(f"the ssh-agent's signature is invalid: {trouble.message}", remedy=remedy) from None

    def _refused(self) -> NotPermitted:
        name = ssh_key.fingerprint(self.public_key)
        held = {key.blob for key in identities(self._socket_path)}
        if self.public_key.blob in held:
            return NotPermitted(
                f"the ssh-agent has {name} but refused to sign with it",
                remedy="sign again, and confirm or touch when asked; this lists its keys: ssh-add -l",
            )
        remedy = "if you locked it: ssh-add -X; otherwise add the key: ssh-add FILE"
        return NotPermitted(f"the ssh-agent does not offer {name}: it is locked or lacks the key", remedy=remedy)


def sign_request(key: PublicKey, data: bytes) -> bytes:
    flags = _RSA_SHA2_512 if key.type == "ssh-rsa" else 0
    return bytes([_SIGN]) + ssh_key.pack(key.blob, data) + flags.to_bytes(4, "big")


def _listed(body: bytes) -> tuple[PublicKey, ...]:
    count, parts = int.from_bytes(body[:4], "big"), ssh_key.strings(body[4:])
    if count > IDENTITIES_MAX or len(parts) != 2 * count:
        raise ValueError(f"it announces {count} keys but lists {len(parts) / 2:g}")
    found = []
    for blob, comment in zip(parts[::2], parts[1::2], strict=True):
        try:
            found.append(ssh_key.from_blob(blob, _printable(comment)))
        except Invalid:
            continue  # certificates and DSA keys are not supported
    return tuple(found)


def _printable(comment: bytes) -> str:
    return "".join(letter for letter in comment.decode(errors="replace") if letter.isprintable())


def _body(reply: bytes, expected: int) -> bytes:
    if reply[:1] == bytes([_FAILURE]):
        raise NotPermitted("the ssh-agent refused to list its keys", remedy="check it yourself: ssh-add -l")
    if reply[:1] != bytes([expected]):
        raise ValueError(f"it answered {reply[:1]!r} instead of {bytes([expected])!r}")
    return reply[1:]


def _nonsense(why: str) -> Failed:
    return Failed(
        f"the ssh-agent sent an invalid reply: {why}", remedy='check which program listens: ls -l "$SSH_AUTH_SOCK"'
    )


def _exchange(socket_path: str, request: bytes, timeout_s: float) -> bytes:
    if not socket_path:
        raise Unreachable("no ssh-agent is configured: SSH_AUTH_SOCK is empty", remedy=_START)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
            return _talk(agent, socket_path, request, time.monotonic() + timeout_s)
    except TimeoutError:
        remedy = "confirm or touch in time, or check the agent: ssh-add -l"
        raise Unreachable(f"the ssh-agent did not answer within {timeout_s:g} s", remedy=remedy) from None
    except PermissionError:
        remedy = f"use your own agent; this shows the owner: ls -l {socket_path}"
        raise NotPermitted(f"the ssh-agent at {socket_path} belongs to another user", remedy=remedy) from None
    except (OSError, EOFError) as trouble:
        reason = os.strerror(trouble.errno) if isinstance(trouble, OSError) and trouble.errno else str(trouble)
        raise Unreachable(f"no ssh-agent answers at {socket_path}: {reason}", remedy=_START) from None
    except ValueError as trouble:
        raise _nonsense(str(trouble)) from None


def _talk(agent: socket.socket, socket_path: str, request: bytes, deadline_s: float) -> bytes:
    agent.settimeout(_left_s(deadline_s))
    agent.connect(socket_path)
    agent.sendall(ssh_key.pack(request))
    size = int.from_bytes(_receive(agent, 4, deadline_s), "big")
    if not 0 < size <= REPLY_BYTES_MAX:
        raise ValueError(f"it announced a reply of {size} bytes")
    return _receive(agent, size, deadline_s)


def _receive(agent: socket.socket, size: int, deadline_s: float) -> bytes:
    received = bytearray()
    while len(received) < size:
        agent.settimeout(_left_s(deadline_s))
        part = agent.recv(size - len(received))
        if not part:
            raise EOFError("it closed the connection in the middle of its reply")
        received += part
    return bytes(received)


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
