"""Write the fleet's refusals into the audit log: one line each; of a flood, one line for all equal ones (D9)."""

import asyncio

from holdfast.errors import HoldfastError
from holdfast.hub.http import denials
from holdfast.model.audit import Event
from holdfast.model.principal import Principal
from holdfast.ports.audit_log import AuditLog


class Refusals:
    """Belongs to the event loop."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._window = denials.Window()
        self._folding = False

    def note(self, principal: Principal, action: str, target: str, why: HoldfastError, source: str) -> None:
        self.fold(Event(str(principal), action, target, "denied", f"{why.code}: {why.message}", source))

    def fold(self, event: Event) -> None:
        if not self._folding:
            self._folding = True
            asyncio.get_running_loop().call_later(denials.WINDOW_S, self._end_window)
        now = self._window.note(event)
        if now is not None:
            self._audit.append(now, durable=False)

    def _end_window(self) -> None:
        self._folding = False
        for event in self._window.end():
            self._audit.append(event, durable=False)
