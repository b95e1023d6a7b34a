"""The hub's own file, sealed to operators, for the node of the hub, which stores it on its targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import Conflict, Invalid, NotPermitted
from holdfast.hub.http.operation import NODES, Operation
from holdfast.hub.http.route import Parameter, Route
from holdfast.model.hub_file import SEALED_BYTES_MAX
from holdfast.wire import codec
from holdfast.wire.backup_messages import PART_BYTES
from holdfast.wire.hub_file_messages import HubFileAnswer

if TYPE_CHECKING:
    from holdfast.hub.http.request import Request
    from holdfast.ports.hub_file_maker import HubFileMaker
    from holdfast.ports.hub_link import HubLink

COPY = Operation("copy-hub", "the file of the hub, sealed to operators; the node of the hub", NODES)


class HubFile:
    """`maker` is None for a hub that has no ledger of its own."""

    def __init__(self, hub: HubLink, maker: HubFileMaker | None) -> None:
        self._hub = hub
        self._maker = maker

    def ask(self, request: Request) -> bytes:
        made = self._allowed(request).ask()
        return codec.write(HubFileAnswer(made.digest, made.size_bytes) if made is not None else HubFileAnswer())

    def part(self, request: Request) -> bytes:
        maker, digest = self._allowed(request), request.path["digest"]
        found = maker.part(digest, request.query["first"], PART_BYTES)
        if found is None:
            raise Invalid(
                f"the hub has no file {digest[:16]} of itself any more",
                remedy="ask for the newest one: GET /v1/hub-file",
                code="not_found",
            )
        return found

    def _allowed(self, request: Request) -> HubFileMaker:
        applied, node = self._hub.applied(), request.principal.name
        if applied is None or "hub" not in applied.node(node).roles:
            raise NotPermitted(
                f"{request.principal} may not copy the hub: it is not the node of the hub",
                remedy='give that node roles = ["hub"] in fleet.toml, then: holdfast apply',
                code="not_the_hub",
            )
        if self._maker is None:
            raise Conflict(
                "this hub serves a fleet directory, and has no ledger to keep",
                remedy="keep that directory",
                code="no_ledger",
            )
        return self._maker


ROUTES = (
    Route(
        "GET",
        "/v1/hub-file",
        COPY,
        "The digest of the hub's own sealed file, made within the last minute",
        HubFile,
        HubFile.ask,
        HubFileAnswer,
        cost="object",
        refusals=(409,),
    ),
    Route(
        "GET",
        "/v1/hub-file/{digest}",
        COPY,
        "At most 4 MiB of the hub's own sealed file, from byte `first` on",
        HubFile,
        HubFile.part,
        None,
        query=(Parameter("first", 0, SEALED_BYTES_MAX, 0),),
        cost="object",
        refusals=(400, 404, 409),
    ),
)
