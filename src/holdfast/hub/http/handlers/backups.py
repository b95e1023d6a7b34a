"""Backup objects: stored, fetched, listed and deleted, one by one, by nodes for their services; read by operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import Conflict
from holdfast.hub.backups import access
from holdfast.hub.http.handlers import objects
from holdfast.hub.http.operation import NODES, OPERATORS, Operation
from holdfast.model import backup_key
from holdfast.wire import codec
from holdfast.wire.backup_messages import PART_BYTES, ObjectDeleted, ObjectTaken, PresentAnswer, PresentRequest

if TYPE_CHECKING:
    from holdfast.hub.backups.store import BackupStore
    from holdfast.hub.http.request import Request
    from holdfast.model.applied import Applied
    from holdfast.model.backup_key import BackupKey
    from holdfast.ports.hub_link import HubLink

WRITE = Operation("write-backup", "store objects of backups of the services that run on the caller", NODES)
DELETE = Operation("delete-backup", "delete objects that no kept backup needs", NODES)
READ = Operation("read-backup", "objects of backups, sealed; a node those of its services", NODES | OPERATORS)


class Backups:
    """`store` is None for a hub that has no ledger of its own."""

    def __init__(self, hub: HubLink, store: BackupStore | None, ordered: access.Ordered) -> None:
        self._hub = hub
        self._ordered = ordered
        self._store = store

    def check_put(self, request: Request) -> None:
        """Before the body is read."""
        self._may_write(request)

    def put_backup(self, request: Request) -> bytes:
        key, applied = self._may_write(request)
        node = request.principal.name
        mine = [name for name, entry in applied.table.of_kind("service").items() if entry.node == node]
        mine.append(backup_key.of_node(node))
        nodes = len(access.nodes_with_services(applied) | {node})
        is_new = self._kept().put(key, request.body, request.principal, mine, nodes)
        return codec.write(ObjectTaken(key.text, is_new))

    def get_backup(self, request: Request) -> bytes:
        key = backup_key.parse(request.query["key"])
        access.check_read(
            access.check_fleet(self._hub.applied(), key.fleet), request.principal, key.service, self._ordered
        )
        found = self._kept().part(key, request.query["first"], PART_BYTES)
        if found is None:
            raise access.not_found()
        return found

    def present_backups(self, request: Request) -> bytes:
        keys = [backup_key.parse(text) for text in codec.read(request.body, PresentRequest).keys]
        applied = self._hub.applied()
        for fleet, service in {(key.fleet, key.service) for key in keys}:
            self._check_read(request, applied, fleet, service)
        return codec.write(PresentAnswer(tuple(sorted(self._kept().present([key.text for key in keys])))))

    def list_backups(self, request: Request) -> bytes:
        prefix = backup_key.check_prefix(request.query["prefix"])
        fleet, service = prefix.split("/")[0], backup_key.service_of(prefix)
        applied = access.check_fleet(self._hub.applied(), fleet)
        access.check_read(applied, request.principal, service, self._ordered)
        found = self._kept().listed(prefix)
        found = found if service else access.readable(applied, request.principal, found)
        return objects.page(found, request)

    def delete_backup(self, request: Request) -> bytes:
        key, _ = self._may_write(request)
        self._kept().delete(key, request.principal)
        return codec.write(ObjectDeleted(key.text))

    def backup_room(self, request: Request) -> bytes:
        return codec.write(self._kept().state())

    def _check_read(self, request: Request, applied: Applied | None, fleet: str, service: str) -> None:
        access.check_read(access.check_fleet(applied, fleet), request.principal, service, self._ordered)

    def _may_write(self, request: Request) -> tuple[BackupKey, Applied]:
        key = backup_key.parse(request.query["key"])
        applied = access.check_fleet(self._hub.applied(), key.fleet)
        access.check_write(applied, request.principal, key.service)
        return key, applied

    def _kept(self) -> BackupStore:
        if self._store is None:
            raise Conflict(
                "this hub serves a fleet directory, and stores no backups",
                remedy="run a hub that has a ledger of its own, or attach another target",
                code="no_backup_store",
            )
        return self._store


ROUTES = objects.routes(
    "/v1/backup-objects",
    Backups,
    objects.Words(store="store", object="object", deletable="object that no kept backup needs"),
    objects.Permissions(write=WRITE, read=READ, delete=DELETE),
    objects.Runs(
        check_put=Backups.check_put,
        put=Backups.put_backup,
        get=Backups.get_backup,
        delete=Backups.delete_backup,
        present=Backups.present_backups,
        listed=Backups.list_backups,
        room=Backups.backup_room,
    ),
)
