"""Whether a process has accepted a TCP connection: the kernel completes connections for a process that hangs (T11).

Read from /proc/PID/net. Connections that were not accepted have no inode there. Whatever cannot be read or found counts
as accepted: nothing is called hung that is not seen to be.
"""

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address

FILES = ("tcp", "tcp6")  # a server that listens at [::] has its IPv4 connections in the second one
BYTES_MAX = 4 << 20
OPEN = (b"01", b"08")  # ESTABLISHED, CLOSE_WAIT
NO_INODE = b"0"

End = tuple[str, int]  # address, port


def waits(pid: int, port: int, client: End) -> bool:
    """True: the connection from `client` to `port` in the network of this process was made and not accepted."""
    return any(is_left(row, port, client) for name in FILES for row in _rows(f"/proc/{pid}/net/{name}"))


def is_accepted(pid: int, port: int) -> bool:
    """A connection to `port`, from anywhere, was made and accepted in the network of this process."""
    rows = (row for name in FILES for row in _rows(f"/proc/{pid}/net/{name}"))
    return any(
        len(row) > 9 and row[3] in OPEN and row[9] != NO_INODE and int(row[1].rpartition(b":")[2], 16) == port
        for row in rows
    )


def _rows(path: str) -> Iterator[list[bytes]]:
    content = b""
    with suppress(OSError), open(path, "rb") as file:
        content = file.read(BYTES_MAX)
    return (line.split() for line in content.splitlines()[1:])


def is_left(row: list[bytes], port: int, client: End) -> bool:
    """Columns: number, local end, remote end, state, queues, timer, retransmissions, user, timeout, inode …"""
    if len(row) < 10 or row[3] not in OPEN or row[9] != NO_INODE:
        return False
    return int(row[1].rpartition(b":")[2], 16) == port and row[2].endswith(_written(client))


def _written(end: End) -> bytes:
    """As the kernel writes it: words of four bytes in the machine's order; of a mapped address the last word."""
    packed = ip_address(end[0]).packed
    words = [packed[place : place + 4][::-1].hex() for place in range(0, len(packed), 4)]
    return f"{''.join(words)}:{end[1]:04x}".upper().encode()
