"""Objects of moves: put by the source, fetched by the target, and what both of them signed."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from holdfast.errors import Conflict
from holdfast.hub.http.handlers.backups import AFTER, FIRST, KEY, LIMIT, PREFIX
from holdfast.hub.http.operation import NODES, Operation
from holdfast.hub.http.route import REFUSED, Route
from holdfast.hub.moves import access
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.ports.backup_target import TargetState
from holdfast.wire import codec
from holdfast.wire.backup_messages import (
    PART_BYTES,
    ObjectDeleted,
    ObjectsPage,
    ObjectTaken,
    PresentAnswer,
    PresentRequest,
)

if TYPE_CHECKING:
    from holdfast.hub.backups.store import BackupStore
    from holdfast.hub.http.request import Request
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
        key = self._may_put(request)
        is_new = self._kept().put(key, request.body, request.principal, (key.service,), 1)
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
        found, limit = self._kept().listed(prefix), request.query["limit"]
        first = bisect_right(found, request.query["after"], key=lambda one: one.key)
        return codec.write(ObjectsPage(tuple(found[first : first + limit]), first + limit < len(found)))

    def delete_move(self, request: Request) -> bytes:
        key = self._may_read(request, request.query["key"])
        self._kept().delete(key, request.principal)
        return codec.write(ObjectDeleted(key.text))

    def move_room(self, request: Request) -> bytes:
        return codec.write(self._kept().state())

    def _may_put(self, request: Request) -> BackupKey:
        key = backup_key.parse(request.query["key"])
        access.check_put(access.check_fleet(self._hub.applied(), key.fleet), request.principal, key)
        return key

    def _may_read(self, request: Request, text: str) -> BackupKey:
        key = backup_key.parse(text)
        access.moving(access.check_fleet(self._hub.applied(), key.fleet), request.principal.name, key.service)
        return key

    def _kept(self) -> BackupStore:
        if self._store is None:
            raise Conflict(
                "this hub serves a fleet directory, and passes no data on",
                remedy="run a hub that has a ledger of its own",
                code="no_mailbox",
            )
        return self._store


AT = "/v1/move-objects"
ROUTES = (
    Route(
        "PUT",
        AT,
        HAND_OVER,
        "Store an object of a move; answers when it is durable",
        Moves,
        Moves.put_move,
        ObjectTaken,
        bytes,
        query=(KEY,),
        cost="object",
        body_bytes_max=OBJECT_BYTES_MAX,
        refusals=(*REFUSED, 404),
        check=Moves.check_put,
    ),
    Route(
        "GET",
        AT,
        HAND_OVER,
        "At most 4 MiB of an object of a move, from byte `first` on",
        Moves,
        Moves.get_move,
        None,
        query=(KEY, FIRST),
        cost="object",
        refusals=(400, 404, 409),
    ),
    Route(
        "DELETE",
        AT,
        HAND_OVER,
        "Delete an object of a move",
        Moves,
        Moves.delete_move,
        ObjectDeleted,
        query=(KEY,),
        cost="object",
        refusals=(400, 404, 409),
    ),
    Route(
        "POST",
        f"{AT}/present",
        HAND_OVER,
        "Which of these objects of a move are stored",
        Moves,
        Moves.present_moves,
        PresentAnswer,
        PresentRequest,
        cost="object",
        refusals=(*REFUSED, 404),
    ),
    Route(
        "GET",
        f"{AT}/list",
        HAND_OVER,
        "Objects of a move whose keys begin so, sorted by key",
        Moves,
        Moves.list_moves,
        ObjectsPage,
        query=(PREFIX, AFTER, LIMIT),
        cost="object",
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        f"{AT}/room",
        HAND_OVER,
        "Whether the mailbox takes objects, and how many bytes of them",
        Moves,
        Moves.move_room,
        TargetState,
        refusals=(409,),
    ),
)
