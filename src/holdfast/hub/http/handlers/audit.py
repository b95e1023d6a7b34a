"""Audit lines: of the hub, or of a node as the node sent them."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.hub.http import limits
from holdfast.hub.http.operation import OPERATORS, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import NODE, Parameter, Route
from holdfast.model.canonical import INT_MAX
from holdfast.wire import codec, messages

# Not for viewers: the lines name addresses and mistakes of people.
READ_AUDIT = Operation("read-audit", "the audit log of the hub or of a node", OPERATORS)

AFTER = Parameter("after", 0, INT_MAX, 0)
LINES = Parameter("limit", 1, limits.AUDIT_LINES_MAX, limits.AUDIT_LINES_MAX)


class AuditedFleet(Protocol):
    """May be asked from any thread."""

    def audit_lines(self, node: str | None, after: int, limit: int) -> Sequence[bytes]: ...

    def audit_entries(self, node: str | None) -> int: ...


class Audit:
    def __init__(self, fleet: AuditedFleet) -> None:
        self._fleet = fleet

    def audit(self, request: Request) -> bytes:
        query = request.query
        lines = self._fleet.audit_lines(query["node"] or None, query["after"], query["limit"])
        entries = self._fleet.audit_entries(query["node"] or None)
        return codec.write(messages.AuditPage(tuple(lines), entries))


ROUTES = (
    Route(
        "GET",
        "/v1/audit",
        READ_AUDIT,
        "Audit lines of the hub, or of a node as it sent them",
        Audit,
        Audit.audit,
        messages.AuditPage,
        query=(NODE, AFTER, LINES),
        refusals=(400, 404, 409),
    ),
)
