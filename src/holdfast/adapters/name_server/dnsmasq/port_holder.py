"""Find the process that listens on a port, so that a remedy can name it."""

import os
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address

TABLES = ("udp", "tcp", "udp6", "tcp6")
LISTENING = {"udp": "07", "tcp": "0A"}


def holder(address: str, port: int) -> str:
    """Such as "systemd-resolve (pid 412)"; "another process" if the kernel does not reveal it."""
    for inode in _sockets(address, port):
        for pid in (name for name in os.listdir("/proc") if name.isdecimal()):
            if _has(pid, f"socket:[{inode}]"):
                return f"{_name(pid)} (pid {pid})"
    return "another process"


def _sockets(address: str, port: int) -> Iterator[str]:
    """Inodes of sockets that listen on this address or on all addresses."""
    wanted = {f"{host}:{port:04X}" for host in (_kernel_spelling(address), "0" * 8, "0" * 32)}
    for table in TABLES:
        with suppress(OSError), open(f"/proc/net/{table}", encoding="ascii") as file:
            for fields in map(str.split, file.readlines()[1:]):
                local, state, inode = fields[1], fields[3], fields[9]
                if local in wanted and state == LISTENING[table[:3]]:
                    yield inode


def _kernel_spelling(address: str) -> str:
    """Hexadecimal, in groups of four bytes, each in reverse order."""
    packed = ip_address(address).packed
    words = (packed[at : at + 4][::-1] for at in range(0, len(packed), 4))
    return b"".join(words).hex().upper()


def _has(pid: str, socket: str) -> bool:
    with suppress(OSError):
        for handle in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{handle}") == socket:
                    return True
    return False


def _name(pid: str) -> str:
    with suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return "a process"
