"""The records of a DNS server as a hosts file, and the serial that proves which of them a running server has. Pure.

The serial is one more record of the same file, named by the digest of all others: a server that answers to it has read
that file to its end. No component can have its name: those know no underscore.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address

from holdfast.errors import Invalid
from holdfast.model import canonical
from holdfast.model.route import within

SERIAL_ADDRESS = "192.0.2.53"  # means nothing: an address of the documentation's own network
SERIAL_LENGTH = 32
BYTES_MAX = 64 << 20

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")


def checked(names: Mapping[str, str], zone: str) -> dict[str, str]:
    """Sorted. Refuses what a server would silently leave out, and names that are not ours to answer for."""
    for name, address in names.items():
        if not _NAME.fullmatch(name) or not within(name, zone):
            raise Invalid(
                f"{name!r} is not a name in {zone}",
                remedy="apply the fleet again from a directory that `holdfast plan` accepts",
            )
        if not address or _address(address) != address:
            raise Invalid(
                f"{name} leads to {address!r}, which is not an address",
                remedy="correct the node's address in fleet.toml and apply",
            )
    return dict(sorted(names.items()))


def serial(names: Mapping[str, str], zone: str) -> str:
    return f"{canonical.digest(canonical.encode(dict(names)))[:SERIAL_LENGTH]}._serial.{zone}"


def mark(zone: str) -> str:
    """The name to which a server says which process it is."""
    return f"_process.{zone}"


def written(names: Mapping[str, str], zone: str) -> bytes:
    """The serial comes last, so that nobody answers to it who did not read the rest."""
    lines = [f"{address} {name}" for name, address in sorted(names.items())]
    return "".join(f"{line}\n" for line in (*lines, f"{SERIAL_ADDRESS} {serial(names, zone)}")).encode()


def read(content: bytes | None, zone: str) -> dict[str, str] | None:
    """None unless it is, to the last byte, what `written` makes."""
    if content is None:
        return None
    pairs = [line.split(" ") for line in content.decode("utf-8", "replace").splitlines()[:-1]]
    names = {pair[1]: pair[0] for pair in pairs if len(pair) == 2}
    return names if written(names, zone) == content else None


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        return ""
