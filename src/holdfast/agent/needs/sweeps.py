"""When each provider is told what this node holds: regularly, and soon after that changed."""

from holdfast.agent.findings import Findings
from holdfast.agent.link.pace import Pace
from holdfast.agent.needs.books import Books
from holdfast.agent.needs.telling import Telling
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError
from holdfast.reconcile import needs as rules

SWEEP_HEARTBEATS = 10.0
AGAIN_S = 30.0  # after a try in vain; shorter where everything is faster
SILENT = "provider_silent"


class Sweeps:
    def __init__(self, telling: Telling, books: Books, pace: Pace, findings: Findings, time: NodeTime) -> None:
        self._telling = telling
        self._books = books
        self._pace = pace
        self._findings = findings
        self._monotonic_s = time.monotonic_s
        self._now_s = time.now_s
        self._next_s: dict[str, float] = {}
        self._in_vain: set[str] = set()  # providers that did not take the last statement

    @property
    def _every_s(self) -> float:
        return self._pace.cadence.heartbeat_s * SWEEP_HEARTBEATS

    def due(self) -> tuple[list[str], float]:
        """The providers to tell now, and the seconds until the next one."""
        now_s, found, pause_s = self._monotonic_s(), [], self._every_s
        for provider in self._books.providers:
            at_s = self._next_s.get(provider, now_s)
            if at_s <= now_s or (provider not in self._in_vain and self._telling.is_due(provider)):
                found.append(provider)
            else:
                pause_s = min(pause_s, at_s - now_s)
        return found, pause_s

    async def tell(self, provider: str) -> None:
        address = f"node.{provider}"
        try:
            gone = await self._telling.tell(provider)
        except HoldfastError as trouble:
            self._in_vain.add(provider)
            self._next_s[provider] = self._monotonic_s() + min(AGAIN_S, self._every_s)
            remedy = f"{trouble.remedy}; credentials that it gave stay valid meanwhile"
            message = f"{provider} could not be told what is held: {trouble.message}"
            self._findings.add(SILENT, message, remedy, address)
            return
        self._in_vain.discard(provider)
        self._next_s[provider] = self._monotonic_s() + self._every_s
        self._findings.clear(SILENT, address)
        self._take_back(provider, gone)

    def _take_back(self, provider: str, gone: tuple[str, ...]) -> None:
        """By a signed order at the provider. The service keeps the values until it has the next ones."""
        for key, held in [(key, one) for key, one in self._books.held.items() if one.provider == provider]:
            lost = rules.taken_back(held, gone, self._now_s(), self._every_s)
            if lost is not None:
                self._books.keep(key, lost)
