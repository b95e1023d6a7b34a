"""A DNS server in memory, with controls that make it freeze or die, for tests."""

from collections.abc import Mapping

from holdfast.adapters.name_server.dnsmasq import zone_file
from holdfast.adapters.name_server.dnsmasq.questions import silent
from holdfast.errors import HoldfastError, TryLater
from holdfast.ports.name_server import Serving


class MemoryNameServer:
    def __init__(self) -> None:
        self.serving: Serving | None = None
        self.records: dict[str, str] = {}
        self.applied: list[dict[str, str]] = []
        self.starts = 0
        self.frozen = False
        self.running = False
        self.troubles: list[HoldfastError] = []  # raised by follow instead of a start, one per attempt

    # ---- controls for tests

    def freeze(self) -> None:
        self.frozen = True

    def die(self) -> None:
        self.running = False

    # ---- the port

    async def follow(self, serving: Serving | None) -> None:
        if serving is None:
            self.serving, self.records, self.running, self.frozen = None, {}, False, False
            return
        if self.running and not self.frozen and serving == self.serving:
            return
        self.running = False
        if self.troubles:
            raise self.troubles.pop(0)
        if self.serving is None or serving.zone != self.serving.zone:
            self.records = {}
        self.serving, self.running, self.frozen = serving, True, False
        self.starts += 1

    async def version(self) -> str:
        return "memory 1" if self.running and not self.frozen else ""

    async def names(self) -> Mapping[str, str]:
        self._following()
        return dict(self.records)

    async def apply(self, names: Mapping[str, str]) -> None:
        serving = self._following()
        self.records = zone_file.checked(names, serving.zone)
        self.applied.append(dict(self.records))

    def answer(self, name: str) -> str:
        """The answer to a query; "" if there is no such name."""
        self._following()
        return self.records.get(name, "")

    def _following(self) -> Serving:
        if self.serving is None:
            raise TryLater(
                "no DNS server runs on this node", remedy="set [dns] in fleet.toml and apply", code="dns_down"
            )
        if not self.running or self.frozen:
            raise silent(self.serving.address)
        return self.serving
