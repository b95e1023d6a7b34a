"""The hub's store of backup objects: stores and gives out, within what the disk allows. Blocking; for any thread.

It opens nothing: objects are sealed for operators and nodes, and named by the digest of their bytes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import HoldfastError, NotPermitted
from holdfast.hub.backups import quota
from holdfast.hub.backups.quota import Held
from holdfast.model import backup_key
from holdfast.ports.backup_target import TargetState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from holdfast.model.backup_key import BackupKey
    from holdfast.model.principal import Principal
    from holdfast.ports.backup_objects import BackupObjects
    from holdfast.ports.backup_target import StoredObject

RECEIPT_BYTES_MAX = 16 * 1024 * 1024  # a terabyte has 64,000 packs


class ReceiptRule(Protocol):
    def __call__(self, key: BackupKey, content: bytes | bytearray, node: Principal) -> None:
        """Raises if this is no receipt for this key that the node signed itself."""
        ...


def refuses_all(key: BackupKey) -> bool:
    """Until a rule of retention says which objects no kept backup needs."""
    return False


class BackupStore:
    """`may_delete` says whether no kept backup needs an object: what a node asks for is no reason."""

    def __init__(
        self, objects: BackupObjects, receipt: ReceiptRule, may_delete: Callable[[BackupKey], bool] = refuses_all
    ) -> None:
        self._objects = objects
        self._receipt = receipt
        self._may_delete = may_delete
        self._turn = threading.Lock()
        self._pending_bytes = 0
        self._bytes: dict[str, dict[str, int]] = {}  # fleet → service → bytes

    def put(
        self, key: BackupKey, content: bytes | bytearray, node: Principal, mine: Collection[str], nodes: int
    ) -> bool:
        """`mine` are the services of this node, `nodes` how many nodes share the store. False: it was there already."""
        backup_key.check_content(key, content)
        if key.kind == "receipts":
            self._receipt(key, content, node)
        if key.text in self._objects.has((key.text,)):
            return self._objects.put(key, content)
        self._reserve(key, len(content), mine, nodes)
        is_new = False
        try:
            is_new = self._objects.put(key, content)
            return is_new
        finally:
            with self._turn:
                self._pending_bytes -= len(content)
                if is_new:
                    self._count(key, len(content))

    def part(self, key: BackupKey, first: int, at_most: int) -> bytes | None:
        return self._objects.read(key, first, at_most)

    def present(self, keys: Collection[str]) -> set[str]:
        return self._objects.has(keys)

    def listed(self, prefix: str) -> Sequence[StoredObject]:
        return self._objects.listed(prefix)

    def delete(self, key: BackupKey, node: Principal) -> None:
        if not self._may_delete(key):
            raise NotPermitted(
                f"{node} may not delete {key.text}: a backup that is kept may need it",
                remedy="backups are deleted by the rule of retention, when no kept one needs them",
                code="backup_needed",
            )
        with self._turn:
            self._services(key.fleet)
            self._count(key, -self._objects.remove(key))

    def state(self) -> TargetState:
        try:
            room = self._objects.room()
        except HoldfastError as trouble:
            return TargetState("failing", trouble.message)
        free = quota.free_bytes(room, self._pending_bytes)
        if room.is_read_only:
            return TargetState("read_only", "the disk of the hub is mounted read-only", free)
        if free < backup_key.OBJECT_BYTES_MAX:
            return TargetState("full", "the disk of the hub has no room for another object", free)
        return TargetState("attached", "", free)

    # ---- how much is stored

    def _reserve(self, key: BackupKey, size_bytes: int, mine: Collection[str], nodes: int) -> None:
        with self._turn:
            services = self._services(key.fleet)
            held = Held(sum(services.get(one, 0) for one in mine), sum(services.values()), nodes)
            trouble = quota.refusal(self._objects.room(), self._pending_bytes, size_bytes, held)
            if trouble is not None:
                raise trouble
            self._pending_bytes += size_bytes

    def _services(self, fleet: str) -> dict[str, int]:
        """Read from the disk once, and counted from then on."""
        found = self._bytes.get(fleet)
        if found is None:
            found = {}
            for one in self._objects.listed(f"{fleet}/"):
                service = backup_key.service_of(one.key)
                found[service] = found.get(service, 0) + one.size_bytes
            self._bytes[fleet] = found
        return found

    def _count(self, key: BackupKey, size_bytes: int) -> None:
        services = self._services(key.fleet)
        services[key.service] = services.get(key.service, 0) + size_bytes
