"""What dnsmasq is told: everything, so that no file of the machine but its resolv.conf has a say. Pure."""

from holdfast.ports.name_server import Serving

CACHED = 10_000  # answers about other names


def text(serving: Serving, port: int, records: str, user: str) -> bytes:
    """Foreign answers with private addresses are let through: a company's own names lead there, and nothing of ours
    trusts a name that it did not sign."""
    upstream = [f"server={one}" for one in serving.upstream]
    lines = [
        f"port={port}",
        f"listen-address={serving.address}",
        "bind-interfaces",  # this address and nothing else: others may serve DNS on the same machine
        "no-hosts",
        f"addn-hosts={records}",
        f"local=/{serving.zone}/",  # a name of the zone that we do not know does not exist, and is asked nobody
        *(["no-resolv", *upstream] if upstream else ["resolv-file=/etc/resolv.conf"]),
        "domain-needed",
        "bogus-priv",
        f"cache-size={CACHED}",
        "local-ttl=0",  # whoever asks us again hears what is true then
        "keep-in-foreground" if user else "no-daemon",  # the latter also where it may not become anybody else
        "log-facility=-",
        "pid-file",  # none: ours says more
        *([f"user={user}"] if user else []),
    ]
    return "".join(f"{line}\n" for line in lines).encode()
