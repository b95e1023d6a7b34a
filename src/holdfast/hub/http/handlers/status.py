"""The hub's state: its findings, what nodes were last observed to be, which contents are damaged."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from holdfast.hub.http.operation import FOUNDERS, READERS, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import Route
from holdfast.model.hub_status import StatusFinding
from holdfast.model.observation import NodeObservation
from holdfast.ports.hub_link import HubLink
from holdfast.wire import codec, messages

READ_OBSERVATIONS = Operation("read-observations", "the last observation of each node", READERS | FOUNDERS)
READ_STATUS = Operation("read-status", "the status of the hub", READERS | FOUNDERS)
READ_DAMAGE = Operation("read-damage", "contents that are damaged or missing", READERS | FOUNDERS)


class Observed(Protocol):
    def observations(self) -> Mapping[str, NodeObservation]: ...


class Found(Protocol):
    def findings(self) -> Sequence[StatusFinding]: ...


class Status:
    def __init__(self, hub: HubLink, views: Observed, fleet: Found) -> None:
        self._hub = hub
        self._views = views
        self._fleet = fleet

    def observations(self, request: Request) -> bytes:
        """The stored observations; the present ones replace them."""
        return codec.write(messages.ObservationsAnswer({**self._hub.observations(), **self._views.observations()}))

    def status(self, request: Request) -> bytes:
        status = self._hub.status()
        found = (*status.findings, *self._fleet.findings())
        return codec.write(messages.status_answer(replace(status, findings=found)))

    def damaged(self, request: Request) -> bytes:
        return codec.write(messages.DamagedAnswer(tuple(self._hub.damaged())))


ROUTES = (
    Route(
        "GET",
        "/v1/observations",
        READ_OBSERVATIONS,
        "The last observation of each node",
        Status,
        Status.observations,
        messages.ObservationsAnswer,
        refusals=(409,),
    ),
    Route(
        "GET",
        "/v1/status",
        READ_STATUS,
        "The status of this hub",
        Status,
        Status.status,
        messages.StatusAnswer,
        refusals=(409,),
    ),
    Route(
        "GET",
        "/v1/damaged",
        READ_DAMAGE,
        "Contents that the revision served needs and the ledger cannot give",
        Status,
        Status.damaged,
        messages.DamagedAnswer,
        cost="sweep",
        refusals=(409,),
    ),
)
