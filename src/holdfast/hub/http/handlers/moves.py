"""Objects of moves: put by the source, fetched by the target, and what both of them signed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import Conflict
from holdfast.hub.backups.access import nodes_with_services
from holdfast.hub.http.handlers import objects
from holdfast.hub.http.operation import NODES, Operation
from holdfast.hub.moves import access
from holdfast.model import backup_key
from holdfast.wire import codec
from holdfast.wire.backup_messages import PART_BYTES, ObjectDeleted, ObjectTaken, PresentAnswer, PresentRequest

if TYPE_CHECKING:
    from holdfast.hub.backups.store import BackupStore
    from holdfast.hub.http.request import Request
    from holdfast.model.applied import Applied
    from holdfast.model.backup_key import BackupKey
    from holdfast.ports.hub_link import HubLink

HAND_OVER = Operation("hand-over", "objects of a move: the source and the target of the service", NODES)


class Moves:
    """`store` is None for a hub that has no disk of its own."""

    def __init__(self, hub: HubLink, store: BackupStore | None) -> None:
        self._hub = hub
        self._store = store

    def check_put(self, request: Request) -> None:
        """Before the body is read."""
        self._may_put(request)

    def put_move(self, request: Request) -> bytes:
        key, applied = self._may_put(request)
        nodes = len(nodes_with_services(applied) | {request.principal.name})
        is_new = self._kept().put(key, request.body, request.principal, (key.service,), nodes)
        return codec.write(ObjectTaken(key.text, is_new))

    def get_move(self, request: Request) -> bytes:
        key = self._may_read(request, request.query["key"])
        found = self._kept().part(key, request.query["first"], PART_BYTES)
        if found is None:
            raise access.not_found()
        return found

    def present_moves(self, request: Request) -> bytes:
        keys = [self._may_read(request, text) for text in codec.read(request.body, PresentRequest).keys]
        return codec.write(PresentAnswer(tuple(sorted(self._kept().present([key.text for key in keys])))))

    def list_moves(self, request: Request) -> bytes:
        prefix = backup_key.check_prefix(request.query["prefix"])
        applied = access.check_fleet(self._hub.applied(), prefix.split("/")[0])
        access.moving(applied, request.principal.name, backup_key.service_of(prefix))
        return objects.page(self._kept().listed(prefix), request)

    def delete_move(self, request: Request) -> bytes:
        key, applied = self._key(request.query["key"])
        access.check_delete(applied, request.principal, key)
        self._kept().delete(key, request.principal)
        return codec.write(ObjectDeleted(key.text))

    def move_room(self, request: Request) -> bytes:
        return codec.write(self._kept().state())

    def _may_put(self, request: Request) -> tuple[BackupKey, Applied]:
        key, applied = self._key(request.query["key"])
        access.check_put(applied, request.principal, key)
        return key, applied

    def _may_read(self, request: Request, text: str) -> BackupKey:
        key, applied = self._key(text)
        access.moving(applied, request.principal.name, key.service)
        return key

    def _key(self, text: str) -> tuple[BackupKey, Applied]:
        key = backup_key.parse(text)
        return key, access.check_fleet(self._hub.applied(), key.fleet)

    def _kept(self) -> BackupStore:
        if self._store is None:
            raise Conflict(
                "this hub serves a fleet directory, and passes no data on",
                remedy="run a hub that has a ledger of its own",
                code="no_mailbox",
            )
        return self._store


ROUTES = objects.routes(
    "/v1/move-objects",
    Moves,
    objects.Words(store="mailbox", object="object of a move", deletable="object of a move"),
    objects.Permissions(write=HAND_OVER, read=HAND_OVER, delete=HAND_OVER),
    objects.Runs(
        check_put=Moves.check_put,
        put=Moves.put_move,
        get=Moves.get_move,
        delete=Moves.delete_move,
        present=Moves.present_moves,
        listed=Moves.list_moves,
        room=Moves.move_room,
    ),
)
