"""Send the state of the hub to systemd, if it runs under systemd. Never fails, never waits."""

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
        line.setblocking(False)
        line.sendto(state.encode(), address)
