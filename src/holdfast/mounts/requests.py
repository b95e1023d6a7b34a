"""What the agent may ask of the mounting unit: two verbs, about file systems on its list. Pure; nothing else is done.

The agent writes both files below its state directory: the list from the accepted revision, and one request per target.
This program trusts neither: names, UUIDs and verbs have closed forms, and what is mounted is bounded (mounting.py).
"""

from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.model.ids import is_name
from holdfast.model.storage_target import UUID_FORM

FILE_BYTES_MAX = 64 * 1024
REQUESTS_MAX = 64

Verb = Literal["mount", "unmount"]
State = Literal["mounted", "unmounted", "missing", "refused", "failed"]


class Asked(Struct, frozen=True, forbid_unknown_fields=True):
    """A request file; its name is the target's."""

    verb: Verb
    uuid: str


class AllowList(Struct, frozen=True, forbid_unknown_fields=True):
    """The list: target → UUID of its file system, of the storage targets that the accepted revision attaches."""

    targets: dict[str, str]


class Result(Struct, frozen=True, omit_defaults=True):
    name: str
    state: State
    uuid: str = ""
    path: str = ""  # where it is mounted
    reason: str = ""


class Order(Struct, frozen=True):
    """A request that may be done."""

    name: str
    verb: Verb
    uuid: str


def judge(file_name: str, request: bytes, allowed: bytes) -> Order | Result:
    """The order, or the refusal."""
    name = file_name.removesuffix(".json")
    if not is_name(name) or file_name != f"{name}.json":
        return Result("", "refused", reason=f"{file_name[:60]!r} is not the name of a target")
    try:
        asked = msgspec.json.decode(request, type=Asked)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Result(name, "refused", reason="the request cannot be read")
    if UUID_FORM.fullmatch(asked.uuid) is None:
        return Result(name, "refused", reason="that is not the UUID of a file system")
    if asked.uuid != _listed(name, allowed):
        return Result(name, "refused", asked.uuid, reason="the list does not have this UUID under this name")
    return Order(name, asked.verb, asked.uuid)


def _listed(name: str, allowed: bytes) -> str:
    try:
        return msgspec.json.decode(allowed, type=AllowList).targets.get(name, "")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
