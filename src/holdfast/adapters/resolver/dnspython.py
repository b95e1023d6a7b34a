"""Resolve names with dnspython, loaded at the first name. Nothing is cached: callers need the current state."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import TryLater

if TYPE_CHECKING:
    import dns.asyncresolver


class DnspythonResolver:
    def __init__(self, port: int = 53) -> None:
        self._port = port

    async def addresses(self, name: str, servers: Sequence[str], at_most_s: float) -> tuple[str, ...]:
        import dns.exception
        import dns.name

        asked = ", ".join(servers) or "the machine's DNS servers"
        try:
            resolver = self._resolver(servers, at_most_s)
            found = await asyncio.gather(*(_ask(resolver, name, kind) for kind in ("A", "AAAA")))
        except (dns.name.LabelTooLong, dns.name.NameTooLong, dns.name.EmptyLabel):
            return ()  # not a valid name
        except (dns.exception.DNSException, OSError) as trouble:
            raise TryLater(
                f"cannot resolve {name}: no answer from {asked} ({type(trouble).__name__})",
                remedy=f"check it yourself: dig {name}" + (f" @{servers[0]}" if servers else ""),
                code="dns_down",
            ) from trouble
        return tuple(sorted(address for part in found for address in part))

    def _resolver(self, servers: Sequence[str], at_most_s: float) -> "dns.asyncresolver.Resolver":
        import dns.asyncresolver

        resolver = dns.asyncresolver.Resolver(configure=not servers)
        if servers:
            resolver.nameservers = list(servers)
            resolver.port = self._port
        resolver.lifetime = at_most_s
        resolver.timeout = at_most_s / max(1, len(resolver.nameservers))  # leaves time for the last server, too
        return resolver


async def _ask(resolver: "dns.asyncresolver.Resolver", name: str, kind: str) -> tuple[str, ...]:
    import dns.resolver

    try:
        answer = await resolver.resolve(name.rstrip(".") + ".", kind, raise_on_no_answer=False, search=False)
    except dns.resolver.NXDOMAIN:
        return ()
    return tuple(record.to_text() for record in answer.rrset or ())
