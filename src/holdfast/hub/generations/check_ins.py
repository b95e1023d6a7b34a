"""Check-ins of nodes that know which hub is the newest: tell them about this one, and stop it if it is not."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from holdfast.errors import Corrupt, HoldfastError
from holdfast.hub.generations import stored
from holdfast.hub.http.refusals import Refusals
from holdfast.hub.ledger.writes import durable
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.ledger.boot_findings import superseded
from holdfast.model import hub_generation
from holdfast.model.audit import Event
from holdfast.model.checkin import CheckIn, CheckInAnswer
from holdfast.model.hub_generation import Generation, SignedGeneration
from holdfast.model.principal import Principal
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.ledger_store import LedgerStore
from holdfast.trust import hub_generations


class CheckIns(Protocol):
    async def check_in(
        self, principal: Principal, message: CheckIn, source: str, is_gone: Callable[[], bool] = lambda: False
    ) -> CheckInAnswer: ...


class GenerationCheckIns:
    """Belongs to the event loop. Passes every check-in on, unless a node proves that this hub was replaced."""

    def __init__(
        self, check_ins: CheckIns, *, fleet: WatchedFleet, store: LedgerStore, audit: AuditLog, refusals: Refusals
    ) -> None:
        self._check_ins = check_ins
        self._fleet = fleet
        self._store = store
        self._audit = audit
        self._refusals = refusals
        self._own = stored.own(store)
        self._newer: Generation | None = None
        self._ended = asyncio.Event()

    async def check_in(
        self, principal: Principal, message: CheckIn, source: str, is_gone: Callable[[], bool] = lambda: False
    ) -> CheckInAnswer:
        if message.newer_hub is not None and self._newer is None:
            await self._compare(principal, message.newer_hub, source)
        if self._newer is not None:
            raise _refusal(self._newer)
        answer = await self._check_ins.check_in(principal, message, source, is_gone)
        if self._newer is not None:  # learned while this request was held
            raise _refusal(self._newer)
        if self._own is None:
            return answer
        digest = self._own.digest
        return replace(answer, hub=digest, restored_hub=self._own if message.hub != digest else None)

    async def ended(self) -> None:
        """Returns never; raises when a node has proved that a newer hub was restored."""
        await self._ended.wait()
        assert self._newer is not None
        raise _refusal(self._newer)

    async def _compare(self, principal: Principal, signed: SignedGeneration, source: str) -> None:
        """Only what operators signed counts: a node alone can stop no hub."""
        applied = self._fleet.applied()
        if applied is None:
            return
        try:
            said = hub_generations.verify(signed, applied.fleet_id, applied.trust)
        except HoldfastError as trouble:
            self._refusals.note(principal, "check-in", "hub", trouble, source)
            return
        if self._own is not None and said.rank <= hub_generation.decode(self._own.generation).rank:
            return
        await durable(self._store.submit(stored.ending(signed)))
        self._newer = said
        text = f"generation {said.number} was restored; this hub stops"
        self._audit.append(Event(str(principal), "hub-superseded", "hub", "done", text, source))
        self._ended.set()


def _refusal(newer: Generation) -> Corrupt:
    found = superseded(newer)
    return Corrupt(found.message, remedy=found.remedy, code=found.code)
