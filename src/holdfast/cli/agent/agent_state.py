"""An agent's state directory as commands see it: its path and the node it belongs to."""

import os

from holdfast.agent import membership as members
from holdfast.agent.membership import Membership
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.errors import Failed, Invalid, NotPermitted

STATE_DIR = "/var/lib/holdfast/agent"
DATA_DIR = "/srv"
IDENTITY_FILE = "identity.json"


def declare_state_dir(parser: Parser) -> None:
    parser.add_argument("--state-dir", metavar="DIR", default=STATE_DIR, help=f"default {STATE_DIR}")


def identity_path(state_dir: str) -> str:
    return os.path.join(state_dir, IDENTITY_FILE)


def read(state_dir: str, box: Toolbox) -> Membership | None:
    path = identity_path(state_dir)
    try:
        content = box.disk.read(path, members.FILE_BYTES_MAX)
    except Failed as trouble:
        if not isinstance(trouble.__cause__, PermissionError):
            raise
        raise NotPermitted(f"this user cannot read {state_dir}", remedy="repeat the command with sudo") from trouble
    return members.decode(content, path) if content is not None else None


def required(state_dir: str, box: Toolbox) -> Membership:
    found = read(state_dir, box)
    if found is None:
        raise Invalid(
            f"this machine has not joined a fleet: {state_dir} holds no node identity",
            remedy="holdfast agent join TOKEN; an operator gets the token from: holdfast node invite NAME",
            code="not_joined",
        )
    return found


def write(state_dir: str, membership: Membership, box: Toolbox) -> None:
    box.disk.replace(identity_path(state_dir), members.encode(membership), 0o600)
