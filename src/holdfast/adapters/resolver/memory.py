"""A resolver with scripted answers, for tests."""

from collections.abc import Mapping, Sequence

from holdfast.errors import TryLater


class MemoryResolver:
    """`known` has the records of each server, by its address; "" stands for the machine's own resolver."""

    def __init__(self) -> None:
        self.known: dict[str, Mapping[str, Sequence[str]]] = {}
        self.asked: list[tuple[str, str]] = []

    async def addresses(self, name: str, servers: Sequence[str], at_most_s: float) -> tuple[str, ...]:
        for server in servers or ("",):
            self.asked.append((server, name))
            if server in self.known:
                return tuple(sorted(self.known[server].get(name.rstrip(".").lower(), ())))
        raise TryLater(
            f"cannot resolve {name}: no answer from {', '.join(servers) or 'any DNS server'}",
            remedy=f"check it yourself: dig {name}",
            code="dns_down",
        )
