"""The complete configuration of dnsmasq: it reads no other file of the machine but resolv.conf. Pure."""

from holdfast.ports.name_server import Serving

CACHED = 10_000  # cached answers for other names


def text(serving: Serving, port: int, records: str, user: str) -> bytes:
    """Upstream answers with private addresses are allowed: internal company names have them, and Holdfast trusts
    no unsigned name."""
    upstream = [f"server={one}" for one in serving.upstream]
    lines = [
        f"port={port}",
        f"listen-address={serving.address}",
        "bind-interfaces",  # only this address: other DNS servers may run on the same machine
        "no-hosts",
        f"addn-hosts={records}",
        f"local=/{serving.zone}/",  # an unknown name in the zone does not exist and is not forwarded
        *(["no-resolv", *upstream] if upstream else ["resolv-file=/etc/resolv.conf"]),
        "domain-needed",
        "bogus-priv",
        f"cache-size={CACHED}",
        "local-ttl=0",  # clients must not cache our answers
        "keep-in-foreground" if user else "no-daemon",  # "no-daemon" also works where it may not change its user
        "log-facility=-",
        "pid-file",  # empty: no pid file, because daemon.py writes its own
        *([f"user={user}"] if user else []),
    ]
    return "".join(f"{line}\n" for line in lines).encode()
