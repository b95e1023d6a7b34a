"""Keys of the objects of backups: the closed forms, parsed where they enter. The same on every kind of target. Pure.

    <fleet>/<service>/g<generation>/keys|packs|manifests/<digest>
    <fleet>/<service>/receipts/<sequence>-<digest>

`<fleet>` is the first 16 digits of the fleet id, `<digest>` the sha256 of the stored bytes.
"""

import hashlib
import re
from typing import Literal, cast

from msgspec import Struct

from holdfast.errors import Corrupt, Invalid

OBJECT_BYTES_MAX = 24 * 1024 * 1024
FLEET_DIGITS = 16
KEY_CHARS_MAX = 160

SealedKind = Literal["keys", "packs", "manifests"]
Kind = SealedKind | Literal["receipts"]

_FLEET = r"[0-9a-f]{16}"
_NAME = r"[a-z][a-z0-9-]{0,39}"
SERVICE_FORM = rf"(?:(?:node|hub)\.)?{_NAME}"  # no service has a dot in its name: none is taken for a node or a hub
_AT_HUB = rf"(?:node\.)?{_NAME}"  # the hub does not store its own file
_GENERATION = r"g(?:0|[1-9][0-9]{0,8})"
_DIGEST = r"[0-9a-f]{64}"
_SEALED = rf"(?P<generation>{_GENERATION})/(?P<kind>keys|packs|manifests)/(?P<digest>{_DIGEST})"
_RECEIPT = rf"receipts/(?P<sequence>[0-9]{{8}})-(?P<signed>{_DIGEST})"
_ABOVE = rf"(?P<fleet>{_FLEET})/(?P<service>{SERVICE_FORM})"

# What a hub is asked for.
KEY_FORM = rf"{_FLEET}/{_AT_HUB}/(?:{_GENERATION}/(?:keys|packs|manifests)/{_DIGEST}|receipts/[0-9]{{8}}-{_DIGEST})"
PREFIX_FORM = rf"{_FLEET}/(?:{_AT_HUB}/(?:receipts/|{_GENERATION}/(?:(?:keys|packs|manifests)/)?)?)?"

_key = re.compile(rf"{_ABOVE}/(?:{_SEALED}|{_RECEIPT})", re.ASCII)
_prefix = re.compile(PREFIX_FORM.replace(_AT_HUB, SERVICE_FORM), re.ASCII)


class BackupKey(Struct, frozen=True):
    """A key and its parts. `generation` is -1 for a receipt, `sequence` is -1 for anything else."""

    text: str
    fleet: str
    service: str
    kind: Kind
    digest: str
    generation: int = -1
    sequence: int = -1


def parse(text: str) -> BackupKey:
    """Any other spelling is refused: a key becomes a path, a name in a bucket, and a part of an address."""
    found = _key.fullmatch(text) if len(text) <= KEY_CHARS_MAX else None
    if found is None:
        raise Invalid(
            f"{text[:KEY_CHARS_MAX]!r} is not the key of a backup object",
            remedy="keys have the forms FLEET/SERVICE/gN/keys|packs|manifests/DIGEST and "
            "FLEET/SERVICE/receipts/SEQUENCE-DIGEST",
            code="backup_key",
        )
    fleet, service = found["fleet"], found["service"]
    if found["signed"] is not None:
        return BackupKey(text, fleet, service, "receipts", found["signed"], sequence=int(found["sequence"]))
    kind = cast("SealedKind", found["kind"])
    return BackupKey(text, fleet, service, kind, found["digest"], generation=int(found["generation"][1:]))


def is_key(text: str) -> bool:
    return len(text) <= KEY_CHARS_MAX and _key.fullmatch(text) is not None


def is_prefix(text: str) -> bool:
    return len(text) <= KEY_CHARS_MAX and _prefix.fullmatch(text) is not None


def check_prefix(text: str) -> str:
    """The beginning of keys, cut at a slash, at least the fleet."""
    if not is_prefix(text):
        raise Invalid(
            f"{text[:KEY_CHARS_MAX]!r} is not the beginning of keys of backup objects",
            remedy="prefixes have the forms FLEET/, FLEET/SERVICE/, FLEET/SERVICE/receipts/, FLEET/SERVICE/gN/ and "
            "FLEET/SERVICE/gN/keys|packs|manifests/",
            code="backup_key",
        )
    return text


def of_node(node: str) -> str:
    """What stands in the place of a service in the backups of a node itself (M-34)."""
    return f"node.{node}"


def node_of(service: str) -> str:
    """The node whose own files a backup has; "" if it is of a service."""
    return service.removeprefix("node.") if service.startswith("node.") else ""


def of_hub(node: str) -> str:
    """What stands in the place of a service in the backups of the hub that this node makes."""
    return f"hub.{node}"


def hub_of(service: str) -> str:
    """The node that keeps this file of the hub; "" if it is no file of the hub."""
    return service.removeprefix("hub.") if service.startswith("hub.") else ""


def is_of_service(service: str) -> bool:
    return "." not in service


def address(service: str) -> str:
    """The resource that a backup is of, or that makes it."""
    if node := hub_of(service):
        return of_node(node)
    return service if node_of(service) else f"service.{service}"


def subject(service: str) -> str:
    """What a finding is about."""
    return f"service.{service}" if is_of_service(service) else service


def service_of(prefix: str) -> str:
    """The service whose keys begin so; "" if the prefix covers a whole fleet."""
    return prefix.split("/")[1]


def is_of_receipts(prefix: str) -> bool:
    return prefix.endswith("/receipts/")


def sealed(fleet: str, service: str, generation: int, kind: SealedKind, content: bytes) -> str:
    """The key of these bytes; `fleet` is the whole fleet id."""
    return parse(f"{fleet[:FLEET_DIGITS]}/{service}/g{generation}/{kind}/{digest(content)}").text


def receipt(fleet: str, service: str, sequence: int, content: bytes) -> str:
    return receipt_of(fleet, service, sequence, digest(content))


def receipt_of(fleet: str, service: str, sequence: int, digest: str) -> str:
    return parse(f"{fleet[:FLEET_DIGITS]}/{service}/receipts/{sequence:08d}-{digest}").text


def digest(content: bytes | bytearray | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


def check_content(key: BackupKey, content: bytes | bytearray | memoryview) -> None:
    """Before it is stored: an object is named by its bytes, so other bytes can never lie under a key of ours. No object
    is empty: what is sealed has a header, and some targets store no empty files."""
    if not content:
        raise Invalid(f"the object {key.text} is empty", remedy="an object has at least one byte")
    if len(content) > OBJECT_BYTES_MAX:
        raise Invalid(
            f"the object {key.text} has {len(content):,} bytes; {OBJECT_BYTES_MAX:,} are allowed",
            remedy="store it as several packs",
            code="body_too_large",
        )
    if digest(content) != key.digest:
        raise Corrupt(
            f"the bytes of {key.text} do not have the digest in their key",
            remedy="pack the data again: the object was damaged on its way, or its key belongs to another one",
            code="object_digest",
        )


def check_stored(key: BackupKey, content: bytes) -> None:
    """After it was read from a target. No object of ours is empty or too long: such a one is damaged too."""
    try:
        check_content(key, content)
    except Invalid as trouble:
        remedy = "`holdfast backup list` shows other backups"
        raise Corrupt(trouble.message, remedy=remedy, code="object_damaged") from None
