"""The objects of backups that a hub stores, as commands read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.adapters.hub_link.http.asking import Asking
from holdfast.adapters.hub_link.http.revision import lie

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.ports.backup_target import StoredObject

BACKUPS = "/v1/backup-objects"


class StoredBackups(Asking):
    def backup_objects(self, prefix: str) -> Sequence[StoredObject]:
        from holdfast.model.backup_key import is_key
        from holdfast.wire import backup_messages

        found: list[StoredObject] = []
        while True:
            after = f"&after={found[-1].key}" if found else ""
            page = self.get(f"{BACKUPS}/list?prefix={prefix}{after}", backup_messages.ObjectsPage)
            if any(not is_key(one.key) or not one.key.startswith(prefix) for one in page.objects):
                raise lie("it lists a backup object that does not belong there")
            if found and page.objects and page.objects[0].key <= found[-1].key:
                raise lie("it lists backup objects twice")
            found += page.objects
            if not page.more or not page.objects:
                return found

    def backup_object(self, key: str) -> bytes | None:
        from holdfast.model.backup_key import OBJECT_BYTES_MAX
        from holdfast.wire import backup_messages

        found = bytearray()
        while len(found) <= OBJECT_BYTES_MAX:
            answer = self.ask("GET", f"{BACKUPS}?key={key}&first={len(found)}", None)
            if answer.status == 404:
                return None
            part = self.checked(answer).body
            found += part
            if len(part) < backup_messages.PART_BYTES:
                return bytes(found)
        raise lie(f"it sends more bytes for {key} than an object has")
