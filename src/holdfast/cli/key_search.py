"""Search for the operator's key: the given file, else ssh-agent, else ~/.ssh/id_ed25519."""

from collections.abc import Callable
from typing import Protocol

from holdfast.errors import HoldfastError, Invalid
from holdfast.model.ssh_key import PublicKey, line
from holdfast.ports.signer import Signer


class OperatorKeys(Protocol):
    @property
    def usual(self) -> str: ...

    def exists(self, path: str) -> bool: ...

    def public_half(self, path: str) -> PublicKey: ...

    def file(self, path: str) -> Signer: ...

    def security_key(self, path: str) -> Signer: ...

    def agent(self, known: Callable[[bytes], bool]) -> Signer | None: ...

    def warn(self, message: str) -> None: ...


def signer(key: str | None, known: Callable[[bytes], bool], keys: OperatorKeys) -> Signer:
    return _from_file(key, keys) if key else _from_agent(known, keys) or _from_file(keys.usual, keys)


def public_line(key: str | None, keys: OperatorKeys) -> str | None:
    from_agent = _from_agent(lambda blob: True, keys) if key is None else None
    if from_agent is not None:
        return line(from_agent.public_key)
    path = key or keys.usual
    return line(keys.public_half(path)) if _is_there(path, keys) else None


def _from_file(path: str, keys: OperatorKeys) -> Signer:
    if not _is_there(path, keys):
        raise Invalid(
            f"there is no key at {path}, and ssh-agent has none of an operator",
            remedy="give your key with --key FILE, or load it: ssh-add FILE",
            code="no_key",
        )
    public = keys.public_half(path)
    if public.type.startswith("sk-"):
        return keys.security_key(path)
    # Only the public half is here: the agent may hold the rest.
    from_agent = None if keys.exists(path) else _from_agent(lambda blob: blob == public.blob, keys)
    return from_agent or keys.file(path)


def _from_agent(known: Callable[[bytes], bool], keys: OperatorKeys) -> Signer | None:
    try:
        return keys.agent(known)
    except HoldfastError as trouble:
        keys.warn(f"ssh-agent gave no key: {trouble.message}")
        return None


def _is_there(path: str, keys: OperatorKeys) -> bool:
    return keys.exists(path) or keys.exists(path + ".pub")
