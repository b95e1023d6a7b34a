"""The one-time keys of invites that wait for signatures, in the state directory of this machine.

A file that goes from operator to operator must not make its reader a node, so the key is not in it.
"""

import os
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.errors import Conflict, Corrupt
from holdfast.model.invite import Invite

if TYPE_CHECKING:
    from holdfast.ports.disk import Disk

BYTES_MAX = 256 * 1024


class OneTimeKey(Struct, frozen=True):
    seed: bytes
    expires_s: int


class OneTimeKeys:
    """One file per node. Keys of expired invites are removed when the next one is kept."""

    def __init__(self, disk: "Disk", state_dir: str, fleet: str) -> None:
        self._disk = disk
        self._folder = os.path.join(state_dir, "invites", fleet)

    def keep(self, invite: Invite, seed: bytes, now_s: float) -> None:
        kept = {line: key for line, key in self._read(invite.node).items() if key.expires_s > now_s}
        kept[invite.once] = OneTimeKey(seed, invite.expires_s)
        self._disk.make_directory(self._folder)
        self._disk.replace(self._path(invite.node), msgspec.json.encode(kept), 0o600)

    def of(self, invite: Invite) -> bytes:
        found = self._read(invite.node).get(invite.once)
        if found is None:
            raise Conflict(
                f"the one-time key of this invite of {invite.node} is not on this machine",
                remedy="run the command on the machine and as the user that made the file, or make a new invite: "
                f"holdfast node invite {invite.node} -o FILE",
                code="no_one_time_key",
            )
        return found.seed

    def _read(self, node: str) -> dict[str, OneTimeKey]:
        content = self._disk.read(self._path(node), BYTES_MAX)
        if content is None:
            return {}
        try:
            return msgspec.json.decode(content, type=dict[str, OneTimeKey])
        except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
            raise Corrupt(
                f"the one-time keys for {node} cannot be read: {trouble}",
                remedy=f"remove {self._path(node)}, then make a new invite",
                code="memory_damaged",
            ) from trouble

    def _path(self, node: str) -> str:
        return os.path.join(self._folder, node + ".json")
