"""The applied revision: head, table, trust, and contents by digest. A value; it reads no ledger."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.fleet import FleetDocument, Node, Service
from holdfast.model.ids import FLEET
from holdfast.model.revision import NO_HEAD, Head, Header, Table
from holdfast.model.trust import Trust

T = TypeVar("T")


class Applied(Struct, frozen=True, dict=True):
    """`contents` reads lazily: a plan without changes of a thousand services reads none of them.

    A resource is decoded at its first use and kept. What is kept is no field: two values with equal fields are equal.
    """

    head: Head
    header: Header
    table: Table
    trust: Trust
    contents: Mapping[str, bytes]

    @property
    def fleet_id(self) -> str:
        return self.header.fleet

    def fleet(self) -> FleetDocument:
        """Settings of the fleet. Raises Corrupt if the content is missing or damaged, as `node` and `service` do."""
        return self._resource(FLEET, FleetDocument)

    def node(self, name: str) -> Node:
        return self._resource(f"node.{name}", Node)

    def service(self, name: str) -> Service:
        return self._resource(f"service.{name}", Service)

    def _resource(self, address: str, kind: type[T]) -> T:
        found: T | None = self._decoded.get(address)
        if found is None:
            found = _decode(content(self.contents, self.table.entries[address].digest, address), kind, address)
            self._decoded[address] = found
        return found

    @cached_property
    def _decoded(self) -> dict[str, Any]:
        return {}


EMPTY_TABLE = Table({}, {})


def head_of(applied: Applied | None) -> Head:
    return applied.head if applied else NO_HEAD


def table_of(applied: Applied | None) -> Table:
    return applied.table if applied else EMPTY_TABLE


def manifests_of(applied: Applied | None) -> Mapping[str, str]:
    """Node → digest of its manifest."""
    return applied.header.manifests if applied else {}


def affected(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Nodes whose manifest is new, changed or gone, sorted; of `manifests_of` two revisions."""
    return tuple(sorted(node for node in before.keys() | after.keys() if before.get(node) != after.get(node)))


def recorded_key(applied: Applied, node: str) -> str:
    """The public key that the table records for this node; "" if there is none."""
    entry = applied.table.entries.get(f"node.{node}")
    return entry.identity.key if entry is not None and entry.identity is not UNSET else ""


def needed(applied: Applied) -> tuple[str, ...]:
    """Digests of everything that serving this revision takes: contents of resources, secrets, manifests of nodes."""
    belong = (digest for entry in applied.table.entries.values() for digest in entry.needs)
    return tuple(sorted({*belong, *applied.header.manifests.values()}))


_PUT_BACK = (
    "put its file back as it was applied (version control has it) and run `holdfast apply`, which stores the content "
    "again; then edit the file again"
)


def content(contents: Mapping[str, bytes], digest: str, what: str) -> bytes:
    try:
        found = contents[digest]
    except KeyError:
        raise Corrupt(
            f"the content of {what} ({digest[:12]}…) is not in the ledger",
            remedy=_PUT_BACK,
            code="blob_missing",
        ) from None
    if canonical.digest(found) != digest:
        raise Corrupt(
            f"the content of {what} does not match its digest {digest[:12]}…",
            remedy=_PUT_BACK,
            code="blob_damaged",
        )
    return found


def _decode(content_bytes: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(content_bytes, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Corrupt(
            f"the content of {what} cannot be read: {trouble}",
            remedy="`holdfast hub check` names what is damaged",
            code="unreadable",
        ) from trouble


def plain(content_bytes: bytes) -> Any:
    return msgspec.json.decode(content_bytes)
