"""An invite, a revocation or the restore of a hub in a file: the signed bytes, the signatures so far, who can sign.

The text shown comes from the signed bytes. The trust beside them only gives helpful errors; the hub and the command
that goes on decide by the applied revision. No file has the one-time key of an invite (one_time_keys.py).
"""

from shlex import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.text import Block, block
from holdfast.cli.timestamps import rfc3339
from holdfast.errors import Invalid
from holdfast.model import canonical, hub_generation, ssh_key
from holdfast.model.hub_generation import Generation
from holdfast.model.ids import FLEET, is_name
from holdfast.model.invite import (
    INVITE_NAMESPACE,
    REVOKE_NAMESPACE,
    Invite,
    Revocation,
    decode_invite,
    decode_revocation,
)
from holdfast.model.trust import Trust
from holdfast.ports.disk import Disk
from holdfast.trust import endorsement

INVITE, REVOCATION = "holdfast-invite-file-1", "holdfast-revocation-file-1"
GENERATION = "holdfast-hub-generation-file-1"
BYTES_MAX = 256 * 1024
_NAMESPACES = {INVITE: INVITE_NAMESPACE, REVOCATION: REVOKE_NAMESPACE, GENERATION: hub_generation.NAMESPACE}
_AGAIN = {
    INVITE: "holdfast node invite NAME -o FILE",
    REVOCATION: "holdfast node revoke NAME -o FILE",
    GENERATION: "holdfast hub restore FILE -o STATEMENT",
}

Said = Invite | Revocation | Generation


class StatementFile(Struct, frozen=True):
    format: str
    content: bytes  # canonical Invite, Revocation or Generation
    signatures: tuple[str, ...] = ()
    trust: bytes = b""  # canonical, for helpful refusals only

    @property
    def said(self) -> Said:
        if self.format == GENERATION:
            return hub_generation.decode(self.content)
        return decode_invite(self.content) if self.format == INVITE else decode_revocation(self.content)

    @property
    def address(self) -> str:
        """What the scope of a signer must cover."""
        said = self.said
        return FLEET if isinstance(said, Generation) else f"node.{said.node}"

    @property
    def namespace(self) -> str:
        return _NAMESPACES[self.format]

    @property
    def what(self) -> str:
        said = self.said
        if isinstance(said, Generation):
            return f"the restore of the hub, generation {said.number}"
        return f"the {'invite' if self.format == INVITE else 'revocation'} of {said.node}"


def of(kind: str, content: bytes, trust: Trust) -> StatementFile:
    return StatementFile(kind, content, (), canonical.encode(trust))


def is_one(content: bytes) -> bool:
    """Whether this file is an invite or a revocation, not a plan or an order. Verifies nothing."""
    return any(f'"{kind}"'.encode() in content[:200] for kind in _NAMESPACES)


def write(file: StatementFile) -> bytes:
    return msgspec.json.encode(file) + b"\n"


def open_file(path: str, kind: str, disk: Disk) -> StatementFile:
    content = disk.read(path, BYTES_MAX)
    if content is None:
        raise Invalid(f"{path} does not exist", remedy=f"make it first: {_AGAIN[kind]}")
    file = read(path, content)
    if file.format != kind:
        raise Invalid(
            f"{path} has {file.what}",
            remedy=going_on(path, file),
            code="other_statement",
        )
    return file


def read(path: str, content: bytes) -> StatementFile:
    """Also refuses a file whose bytes are not the ones that its signatures are for."""
    try:
        file = msgspec.json.decode(content, type=StatementFile)
        known = file.format in _NAMESPACES and (file.address == FLEET or is_name(file.address.removeprefix("node.")))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        known = False
    if not known:
        raise Invalid(
            f"{path} has no invite and no revocation of a node, and no restore of a hub",
            remedy="make it again: `holdfast node invite NAME -o FILE`, or `holdfast node revoke NAME -o FILE`",
            code="not_a_statement",
        )
    signing_keys(file)
    return file


def signing_keys(file: StatementFile) -> tuple[str, ...]:
    """Each key once. Raises if a signature is not for these bytes."""
    return endorsement.signing_keys(file.content, file.signatures, file.namespace, file.what)


def with_signature(file: StatementFile, armoured: str) -> StatementFile:
    return replace(file, signatures=(*file.signatures, armoured))


def refuse_other_node(name: str, file: StatementFile, path: str) -> None:
    if file.address != f"node.{name}":
        raise Invalid(f"{path} has {file.what}, not of {name}", remedy=going_on(path, file), code="other_statement")


def going_on(path: str, file: StatementFile) -> str:
    said = file.said
    if isinstance(said, Generation):
        return f"holdfast hub restore FILE --from {quote(path)}"
    return f"holdfast node {'invite' if file.format == INVITE else 'revoke'} {said.node} --from {quote(path)}"


def text(file: StatementFile) -> Block:
    """What a person reads before signing; all of it comes from the signed bytes."""
    said = file.said
    if isinstance(said, Generation):
        lines = _generation(said)
    else:
        lines = _invite(said) if isinstance(said, Invite) else _revocation(said)
    return block([*lines, f"  fleet {said.fleet[:12]}…"])


def _invite(said: Invite) -> list[str]:
    over = f"replaces its key {_short(said.over)}" if said.over else "for a node without a key"
    return [
        f"invite a machine as the node {said.node}, roles {', '.join(said.roles)} (grade destroy)",
        f"  {over}",
        f"  valid once, from {rfc3339(said.issued_s)} until {rfc3339(said.expires_s)}",
        f"  one-time key {_short(said.once)}, invite {said.id}",
    ]


def _revocation(said: Revocation) -> list[str]:
    return [
        f"revoke the key of the node {said.node} (grade destroy)",
        f"  key {_short(said.key)}",
        f"  counts from {rfc3339(said.revoked_s)}: invites of {said.node} made until then end with it; never expires",
    ]


def _generation(said: Generation) -> list[str]:
    return [
        f"restore the hub as generation {said.number} (grade destroy)",
        f"  from a file with revision {said.head.number} ({said.head.digest[:12]}…), at {rfc3339(said.restored_s)}",
        "  nodes that learn of it follow no older hub of this fleet any more",
    ]


def _short(line: str) -> str:
    return ssh_key.fingerprint(ssh_key.parse(line))
