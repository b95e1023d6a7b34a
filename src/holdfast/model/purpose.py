"""What a sealed value is for, written inside the seal: its fleet, its name and the addresses that may have it. Pure.

The plaintext of a sealed file is one line of canonical JSON, a line break, and the value byte for byte. A ciphertext
outlives every table and every revision, so no rule about them can bind it: only what is inside the seal can.
"""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.ids import DIGEST_PATTERN

HEAD_BYTES_MAX = 4096
_BEGIN = b'{"addresses":['
_MARK = "secret-1"

# Patterns, because what is inside a seal was written by its sealer and is shown to people.
PurposeAddress = Annotated[str, Meta(pattern=r"^[a-z]{1,20}[.:][A-Za-z0-9._:-]{1,253}$(?!\n)")]
PurposeName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,39}$(?!\n)")]
FleetId = Annotated[str, Meta(pattern=DIGEST_PATTERN)]


class Purpose(Struct, frozen=True, forbid_unknown_fields=True):
    """`addresses`, sorted: `service.web`, `alerts.phone`, `storage.nas`, `provides.w1.postgres`; newer releases also
    write `node.e1` and `registry:HOST`."""

    fleet: FleetId
    name: PurposeName
    addresses: tuple[PurposeAddress, ...]
    holdfast: str = _MARK

    def fits(self, fleet: str, name: str, address: str) -> bool:
        return (self.fleet, self.name) == (fleet, name) and address in self.addresses


class Opened(Struct, frozen=True):
    """`purpose` is None for a file of a release before this form: then `value` is everything that was sealed."""

    value: bytes
    purpose: Purpose | None = None


def wrapped(value: bytes, purpose: Purpose) -> bytes:
    """What is sealed. The value may be anything: what looks like such a line in it stays a part of it."""
    return canonical.encode(purpose) + b"\n" + value


def opened(plain: bytes) -> Opened:
    """Total: whatever is not exactly what `wrapped` makes is a bare value."""
    head, line_break, value = plain.partition(b"\n")
    if not line_break or not head.startswith(_BEGIN) or len(head) > HEAD_BYTES_MAX:
        return Opened(plain)
    try:
        purpose = canonical.decode(head, Purpose, "the purpose of a secret")
    except Corrupt:
        return Opened(plain)
    return Opened(value, purpose) if purpose.holdfast == _MARK else Opened(plain)


def mismatch(purpose: Purpose | None, fleet: str, name: str, address: str) -> str:
    """Why this use is not what it was sealed for, after "the secret NAME"; "" if it is."""
    if purpose is None:
        return f"was sealed by an older release, without the addresses that may have it, and is new to {address}"
    if purpose.fits(fleet, name, address):
        return ""
    if purpose.fleet != fleet:
        return f"is sealed for another fleet, {purpose.fleet[:12]}…"
    if purpose.name != name:
        return f"is the secret {purpose.name} under another name"
    return f"is sealed for {', '.join(purpose.addresses) or 'no address'}, not for {address}"


def resealed(purpose: Purpose | None, name: str, address: str) -> str:
    """The command that gives it to this address. One that has another name inside needs the address in the command."""
    if purpose is None or purpose.name == name:
        return f"holdfast secret rotate {name} --keep"
    kind, _, of = address.partition(".")
    if kind == "alerts":
        return f"holdfast secret rotate {name} --keep --for alerts.{of}"
    if kind == "storage":
        return f"holdfast secret rotate {name} --keep --for storage.{of}"
    if kind == "provides":
        return f"holdfast secret rotate {name} --keep --for provides.{of}"
    return f"holdfast secret rotate {name} --keep --for service.{of}"


def sealed_as(address: str) -> str:
    """How a seal names a resource: as the table does, but `alerts.NAME` for `alert.NAME`."""
    return address.replace("alert.", "alerts.", 1) if address.startswith("alert.") else address


def resource_of(sealed: str) -> str:
    """The address in the table that a seal means."""
    return sealed.replace("alerts.", "alert.", 1) if sealed.startswith("alerts.") else sealed
