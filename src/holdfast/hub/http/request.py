"""One request to the hub: what was received, who sent it, and what its handler needs. Decides nothing."""

from typing import Any

from holdfast.errors import HoldfastError
from holdfast.hub.http.authentication import Credential
from holdfast.hub.http.route import Route
from holdfast.model.audit import Event
from holdfast.model.principal import ANONYMOUS, Principal
from holdfast.ports.http_server import Connection, Exchange

TARGET_SHOWN = 200  # characters of a path in the audit log


class Request:
    """The checks fill it in, one after the other. A handler gets it after the last one."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.received = exchange.request
        self.route: Route | None = None  # None until one matched
        self.credential = Credential(ANONYMOUS)
        self.path: dict[str, Any] = {}  # values of the parameters in the path
        self.query: dict[str, Any] = {}
        self.body: bytes | bytearray = b""
        self.closes = False  # the connection had an identity and this request has none: it ends with the response
        self.audited_by_fleet = False  # its handler writes its own refusals into the audit log

    @property
    def principal(self) -> Principal:
        return self.credential.principal

    @property
    def source(self) -> str:
        return self.received.source

    @property
    def connection(self) -> Connection:
        return self.exchange.connection

    def is_gone(self) -> bool:
        return self.exchange.is_gone()

    @property
    def target(self) -> str:
        """Path and query exactly as sent; of the absolute form, which has the hub's name, what follows that name."""
        sent = self.received.target
        if sent.startswith("/"):
            return sent
        _, _, rest = sent.partition("://")
        return "/" + rest.partition("/")[2]

    def event(self, trouble: HoldfastError) -> Event:
        """The refusal as a line for the audit log."""
        action = self.route.operation if self.route else "unknown"
        target = f"{self.received.method} {self.received.path}"[:TARGET_SHOWN]
        return Event(str(self.principal), action, target, "denied", trouble.code, self.source)
