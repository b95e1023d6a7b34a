"""Adapters of one port do not use those of another: what several need is in a shared folder."""

import ast

from tests.architecture.test_floors import SRC, imports

SHARED = {"http_client", "process", "sqlite", "tls", "walking"}  # implement no port

# folder → folders of other ports that it uses all the same
CROSSINGS = {
    "archive": {"sealing"},  # packs are age files
    "backup_target": {"fleet_link"},  # the hub's store is asked with the same signed requests
    "handshake": {"certificates"},  # in memory: it shows certificates of the authority in memory
    "hub_copy": {"fleet_link"},  # the file of the hub is asked for with the same signed requests
    "hub_files": {"ledger_store"},  # copying the ledger of a hub
    "hub_link": {"certificates"},  # reading X.509
    "machine": {"identity_key"},  # the host key of SSH becomes the node's key
    "move_lines": {"backup_target"},  # objects of moves lie on a node as those of backups do at a hub
    "proxy": {"disk"},
    "public_authority": {"certificates"},  # making requests and reading chains
    "runtime": {"registry"},  # podman pulls with the same names and credentials
    "sessions": {"identity_key"},  # a session has a key
    "stream_link": {"certificates", "hub_link"},  # the command's end of a stream begins with a request to the hub
    "tls": {"certificates"},  # reading X.509
}


def crossings() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted((SRC / "adapters").rglob("*.py")):
        mine = path.relative_to(SRC / "adapters").parts[0]
        used = {
            name.split(".")[2]
            for name in imports(ast.parse(path.read_text()))
            if name.count(".") > 1 and ".adapters." in name
        }
        if others := used - SHARED - {mine}:
            found[mine] = found.get(mine, set()) | others
    return found


def test_adapters_use_shared_folders_and_no_adapters_of_another_port() -> None:
    assert crossings() == CROSSINGS
