"""The address of a node's own HTTP interface: host, and port with a default. Pure."""

import re

from holdfast.errors import Invalid

AGENT_PORT = 9444

_PLACE = re.compile(
    r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]{2,45})\]|(?P<six>[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)"
    r"|(?P<plain>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?))"
    r"(?(six)|(?::(?P<port>[0-9]{1,5}))?)"
)


def place(address: str) -> tuple[str, int]:
    """100.64.0.2, 100.64.0.2:9444, fd00::2, [fd00::2]:9444 or a hostname; returns the host without brackets."""
    found = _PLACE.fullmatch(address)
    port = int((found["port"] if found else None) or AGENT_PORT)
    if found is None or not 0 < port < 65536:
        raise Invalid(
            f"{address[:80]!r} is not a valid address of a node",
            remedy='write it like address = "100.64.0.2" in [[nodes]], or --address 100.64.0.2:9444',
            code="node_address",
        )
    return found["bracketed"] or found["six"] or found["plain"], port


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
