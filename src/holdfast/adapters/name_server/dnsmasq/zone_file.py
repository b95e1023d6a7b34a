"""DNS records as a hosts file, and the serial that proves which version a server has loaded. Pure.

The serial is one more record of the same file, named by the digest of all others: a server that resolves it has read
the whole file. It cannot collide with a component's name, which never contains an underscore.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address

from holdfast.errors import Invalid
from holdfast.model import canonical
from holdfast.model.route import within

SERIAL_ADDRESS = "192.0.2.53"  # has no meaning: an address of the documentation network
SERIAL_LENGTH = 32
BYTES_MAX = 64 << 20

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")


def checked(names: Mapping[str, str], zone: str) -> dict[str, str]:
    """Sorted. Refuses records that a server would silently skip, and names outside the zone."""
    for name, address in names.items():
        if not _NAME.fullmatch(name) or not within(name, zone):
            raise Invalid(
                f"{name!r} is not a name in {zone}",
                remedy="apply the fleet again from a directory that `holdfast plan` accepts",
            )
        if not address or _address(address) != address:
            raise Invalid(
                f"the address of {name} is {address!r}, which is not an IP address",
                remedy="correct the node's address in fleet.toml and apply",
            )
    return dict(sorted(names.items()))


def serial(names: Mapping[str, str], zone: str) -> str:
    return f"{canonical.digest(canonical.encode(dict(names)))[:SERIAL_LENGTH]}._serial.{zone}"


def mark(zone: str) -> str:
    """The TXT record in which a server names its process."""
    return f"_process.{zone}"


def written(names: Mapping[str, str], zone: str) -> bytes:
    """The serial is the last line, so a server resolves it only after reading the rest."""
    lines = [f"{address} {name}" for name, address in sorted(names.items())]
    return "".join(f"{line}\n" for line in (*lines, f"{SERIAL_ADDRESS} {serial(names, zone)}")).encode()


@lru_cache(2)
def read(content: bytes | None, zone: str) -> Mapping[str, str] | None:
    """None unless the content is exactly what `written` makes."""
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
