"""Check declared keys of machines: usable, of type ssh-ed25519, and no two alike. Pure."""

from collections.abc import Sequence

from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.words import Path
from holdfast.errors import Invalid
from holdfast.model import ssh_key
from holdfast.model.fleet import Node

HUB = "the hub (hub_key)"
_SHAPE = 'write the public key as one line, "ssh-ed25519 AAAA…"'


def check(nodes: Sequence[Node], hub_key: str, flaws: Flaws) -> None:
    owners: dict[bytes, str] = {}
    if hub_key:
        _check(("fleet", "hub_key"), hub_key, HUB, owners, flaws)
    for at, node in enumerate(nodes):
        if node.key:
            _check(("nodes", at, "key"), node.key, f'node "{node.name}"', owners, flaws)


def _check(path: Path, line: str, whose: str, owners: dict[bytes, str], flaws: Flaws) -> None:
    try:
        key = ssh_key.parse(line)
    except Invalid as trouble:
        flaws.add_checked(FLEET_FILE, path, trouble.message, _SHAPE)
        return
    if key.type != "ssh-ed25519":
        flaws.add_checked(FLEET_FILE, path, f"is a key of type {key.type}; machines have ssh-ed25519 keys", _SHAPE)
    elif (owner := owners.setdefault(key.blob, whose)) != whose:
        flaws.add_checked(FLEET_FILE, path, f"is also the key of {owner}", "each machine has its own key; correct one")
