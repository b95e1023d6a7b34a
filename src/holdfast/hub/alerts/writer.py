"""Write alerts and the records that explain them into the ledger, then send them. Decides nothing."""

import logging
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.hub.alerts.alarms import Alarms
from holdfast.hub.hub_time import HubTime
from holdfast.hub.ledger.writes import noted
from holdfast.hub.nodes.registry import Registry
from holdfast.model.alert import Alert
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.ports.random_source import RandomSource

log = logging.getLogger("holdfast.fleet")

WORDS_MAX = 400  # of a node, in an alert


class AlertWriter:
    """Belongs to the event loop. One transaction has the record and its alerts: a restart neither forgets an alert nor
    repeats it."""

    def __init__(
        self, *, registry: Registry, store: LedgerStore, random: RandomSource, alarms: Alarms, time: HubTime
    ) -> None:
        self._registry = registry
        self._store = store
        self._random = random
        self._alarms = alarms
        self._time = time

    def write(self, about: str, alerts: Sequence[Alert], put: Mapping[str, bytes], delete: Sequence[str] = ()) -> None:
        """`about` names the record: in the log if it cannot be written, and for an alarm as for its recovery."""
        fleet = self._registry.applied.fleet_id if self._registry.applied is not None else ""
        now_s = self._time.now_s()
        raised = [(self._random.token(8).hex(), replace(alert, fleet=fleet, at_s=now_s)) for alert in alerts]
        whole = dict(put)
        for id, alert in raised:
            whole |= self._alarms.put(alert, id, about)
        if whole or delete:
            try:
                noted(self._store.submit(Transaction(expect={}, put=whole, delete=delete)), about)
            except HoldfastError as trouble:
                log.warning("%s was not written down: %s", about, trouble)
        for id, alert in raised:
            self._alarms.send(alert, id, about)


def plain(words: str) -> str:
    """Text of a node, or of a container on it: one line, without characters that a terminal or a chat interprets."""
    text = "".join(c if c.isprintable() else " " for c in words)
    return text if len(text) <= WORDS_MAX else text[: WORDS_MAX - 1] + "…"
