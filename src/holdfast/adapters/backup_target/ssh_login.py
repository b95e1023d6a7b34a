"""How restic logs in to an SFTP server: with a sealed key, to a server whose key is known."""

from __future__ import annotations

import shlex

from msgspec import Struct

from holdfast.model import storage_target

ALIAS = "target"  # the name of the server in the file with its key, whatever its address is


class SshLogin(Struct, frozen=True):
    """`private`: a key file without a passphrase. `server`: the server's public key, such as `ssh-ed25519 AAAA…`."""

    private: bytes
    server: str

    @property
    def known_hosts(self) -> bytes:
        return f"{ALIAS} {self.server.strip()}\n".encode()


def command(location: str, private: str, known_hosts: str) -> str:
    """The program that restic talks to, for `-o sftp.command=`. `private` and `known_hosts` are paths."""
    found = storage_target.sftp(location)
    assert found is not None, "the declaration was checked"
    user, host, port = found
    options = {
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
        "IdentityFile": private,
        "UserKnownHostsFile": known_hosts,
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": ALIAS,
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": "10",
        "ServerAliveInterval": "15",
        **({"Port": port} if port else {}),
        **({"User": user} if user else {}),
    }
    words = ["ssh", "-F", "/dev/null", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    return shlex.join([*words, host, "-s", "sftp"])
