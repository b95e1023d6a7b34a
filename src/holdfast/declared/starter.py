"""The fleet directory that `holdfast init` writes, with comments. Pure; writes no file."""

import json
from collections.abc import Sequence

from msgspec import UNSET

from holdfast.model.fleet import Operator

# busybox 1.36.1 as published by the Docker library; a digest, so that planning needs no network.
IMAGE = "docker.io/library/busybox@sha256:73aaf090f3d85aa34ee199857f03fa3a95c8ede2ffd4cc2cdb5b94e566b11662"

_FLEET = """\
# What this fleet is, who may change it, and the machines it runs on.
# All keys: docs/reference/fleet-directory.md. Check your edits with: holdfast validate

[fleet]
name = {name}
# The URL of the hub. Without it, what you apply is stored in .ledger/ beside this file.
# hub = "https://hub.example.com:9555"
# The hub's own key as `holdfast hub init` prints it: with it, clients accept no other hub.
# hub_key = "ssh-ed25519 AAAA…"
# The zone in which services find each other, and the domains that public routes may use.
# internal_zone = "svc.example.com"
# public_domains = ["example.com"]

# How many operators must sign a change, by what it does: apply changes what runs,
# destroy gives up data or protection, root changes who may sign.
[trust]
apply = 1
destroy = 1
root = 1
# Distinguishes this fleet from your other fleets. Never change it.
id = {identity}

# The people who may sign. The key is one line of an SSH public key file.
{operators}
# The machines. A node with the role worker runs services; the role hub keeps the ledger.
[[nodes]]
name = "hub1"
roles = ["hub", "worker"]

# A second machine: remove the # signs, then apply.
# [[nodes]]
# name = "w1"
# roles = ["worker"]

# Where the hub sends alerts, for example when a node becomes silent.
# [[alerts]]
# name = "chat"
# webhook = "https://chat.example.com/hooks/abc"
"""

_OPERATOR = """\
[[operators]]
name = {name}
grade = {grade}
key = {key}
"""

_HELLO = """\
# A service has the name of its file: this one is service.hello.
# tier = "worker" lets Holdfast choose a worker; node = "hub1" would pin it to one.
tier = "worker"

[[components]]
name = "web"
# busybox 1.36.1 by digest: always the same bytes. A tag such as "busybox:1.36" works as well.
image = "{image}"
cmd = ["sh", "-c", "mkdir -p /tmp/www && echo hello > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www"]

# A route without public = true is reached from inside the fleet only.
[[components.routes]]
name = "http"
port = 8080

# A new version serves once this check succeeds.
[components.health]
type = "http"
path = "/"
"""

_README = """\
# {name}

This directory declares the fleet {name}: `fleet.toml` declares who may change it and where it runs, `services/` has
one file per service. After an edit, `holdfast plan` shows what would change and `holdfast apply` signs and applies it.
Keep the directory in version control; it has no private key.
"""


_GITIGNORE = """\
# The ledger is not text and must never go back in time with a checkout; back it up separately.
.ledger/
"""


def starter(fleet_name: str, operators: Sequence[Operator], identity: str) -> dict[str, bytes]:
    """Path → content. It loads without a problem if at least one of the operators has the grade root."""
    shown = "\n".join(map(_operator, operators))
    fleet = _FLEET.format(name=_quoted(fleet_name), operators=shown, identity=_quoted(identity))
    files = {
        "fleet.toml": fleet,
        "services/hello.toml": _HELLO.format(image=IMAGE),
        "README.md": _README.format(name=fleet_name),
        ".gitignore": _GITIGNORE,
    }
    return {path: text.encode() for path, text in files.items()}


def _operator(operator: Operator) -> str:
    text = _OPERATOR.format(name=_quoted(operator.name), grade=_quoted(operator.grade), key=_quoted(operator.key))
    if operator.recipient is not UNSET:
        text += f"recipient = {_quoted(operator.recipient)}\n"
    if operator.scope:
        text += f"scope = [{', '.join(map(_quoted, operator.scope))}]\n"
    return text


def _quoted(text: str) -> str:
    """A TOML string; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
