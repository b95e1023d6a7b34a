"""This machine's hostname and addresses: the names for the certificate of a hub that listens on all of them."""

import re
import socket

_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")


def own_names(host: str) -> tuple[str, ...]:
    """The names for a listener on this address; "0.0.0.0" and "::" mean every address of the machine."""
    always = ("localhost", "127.0.0.1", "::1", *_hostname())
    if host in ("0.0.0.0", "::"):  # noqa: S104 (asked about, not bound)
        return tuple(dict.fromkeys((*always, *_ipv4(), *_ipv6())))
    return tuple(dict.fromkeys((*always, host.partition("%")[0])))


def _hostname() -> tuple[str, ...]:
    name = socket.gethostname().lower()
    return (name,) if re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", name) and ".." not in name else ()


def _ipv4() -> list[str]:
    return sorted(set(_LOCAL.findall(_read("/proc/net/fib_trie"))))


def _ipv6() -> list[str]:
    """Without link-local addresses: they cannot be dialled without a zone."""
    rows = [line.split() for line in _read("/proc/net/if_inet6").splitlines()]
    return sorted(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[3] != "20")


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(1 << 20)
    except OSError:
        return ""
