"""A TCP port that no process listens on."""

import random
import socket
from contextlib import suppress
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST = 10_000


def free_port(address: str = "127.0.0.1") -> int:
    """Not one of those that the kernel gives to clients: another test's client would have it when it is bound again."""
    last = int(RANGE.read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(FIRST, last)
        with suppress(OSError), socket.socket() as probe:
            probe.bind((address, port))
            return port
