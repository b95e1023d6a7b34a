"""The type of a resource kind: its document, its part of a table entry, and its rules. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from holdfast.model.applied import content, plain
from holdfast.model.fleet import Fleet, FleetDocument
from holdfast.model.ids import FLEET
from holdfast.model.plan import Demand, FieldChange
from holdfast.model.revision import Entry, NodeIdentity, Table
from holdfast.model.rules import NEWEST, Rules
from holdfast.planning.complaint import Complaint
from holdfast.planning.edges import Edges
from holdfast.planning.fields import differences
from holdfast.planning.placement import Placed, Placer
from holdfast.planning.unsound import Unsound

T = TypeVar("T")

Section = Literal["own", "services", "standby", "policies", "storage", "more", "handover"]
EVERY_NODE = "*"


class PlainEntry(Struct, frozen=True):
    """The fields of an entry that every kind has."""

    digest: str


class Drawing(Struct, frozen=True):
    """The inputs of drafting a table, and its choices: `placed` and `edged` are filled in."""

    fleet: Fleet
    applied: Table
    placer: Placer
    edges: Edges
    addresses: Mapping[str, str]  # node → its address in the overlay
    sealed: Mapping[str, str]  # secret → digest of its sealed bytes
    image_digests: Mapping[str, str]  # tag → digest, from registries
    identities: Mapping[str, NodeIdentity]
    revoked: Set[str]  # revoked key lines
    placed: dict[str, Placed]  # address → node
    edged: dict[str, Placed]  # public hostname → edge


class Proposal(Struct, frozen=True):
    """One created or changed address of a table to check.

    `fleet`: the fleet document of `after`, given by a hub. A node has none: it reads the one of its own table, and may
    have entries that an older release wrote; a hub accepts no new ones of those.
    """

    address: str
    before: Table
    after: Table
    contents: Mapping[str, bytes]
    fleet: FleetDocument | None = None

    @property
    def entry(self) -> Entry:
        return self.after.entries[self.address]

    def document(self, schema: type[T]) -> T:
        return read(self.contents, self.entry, self.address, schema)


class Step(Struct, frozen=True):
    """One address before and after. Contents are read only if a rule needs them.

    `buried`: the content of the address before it was removed. Its data may still exist, so it counts as before.
    """

    address: str
    before: Entry | None
    after: Entry | None
    content_before: Callable[[], bytes]
    content_after: Callable[[], bytes]
    buried: Callable[[], bytes] | None = None
    rules: Rules = NEWEST

    @property
    def name(self) -> str:
        return self.address.partition(".")[2]

    @property
    def is_other_content(self) -> bool:
        return self.before is not None and self.after is not None and self.before.digest != self.after.digest

    def documents(self, schema: type[T]) -> tuple[T, T]:
        return decode(self.content_before(), schema), decode(self.content_after(), schema)


class Kind(Struct, frozen=True):
    """One resource kind. A new kind is a module with one such value, and one line in `every.py`."""

    name: str
    schema: Any  # type of its document; bytes where it is a text
    view: type[Struct]  # the fields of an Entry that this kind has
    documents: Callable[[Fleet], Mapping[str, bytes]]  # declared → address → canonical bytes
    draft: Callable[[Drawing, str, str], Entry]  # of an address and the digest of its document
    check: Callable[[Proposal], None]  # raises Unsound for what no signature allows
    demands: Callable[[Step], Iterator[Demand]]  # which grade must sign, and why
    fields: Callable[[Step], Iterator[FieldChange]]  # what a plan shows of a change
    why: Callable[[Entry | None, Entry], str]  # a change as text; "" if there is none
    project: Callable[[str, Entry, Table], Iterable[tuple[str, Section]]]  # nodes that get it, and where


def destroy(reason: str, gives_up_data: bool = False) -> Demand:
    return Demand("destroy", reason, gives_up_data)


def decode(text: bytes, schema: type[T]) -> T:
    return msgspec.json.decode(text, type=schema)


def read(contents: Mapping[str, bytes], entry: Entry, address: str, schema: type[T]) -> T:
    try:
        return decode(content(contents, entry.digest, address), schema)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Unsound(f"the content of {address} cannot be read: {trouble}") from trouble


def settings_of(table: Table, contents: Mapping[str, bytes]) -> FleetDocument:
    """The fleet document of this table: names, domains and networks are checked against it."""
    if FLEET not in table.entries:
        raise Unsound("the table lacks the fleet resource")
    return read(contents, table.entries[FLEET], FLEET, FleetDocument)


def refuse(address: str, found: Iterable[Complaint]) -> None:
    for complaint in found:
        raise Unsound(f"{address}: {complaint.what}")


def check_name(address: str, name: str) -> None:
    if address.partition(".")[2] != name:
        raise Unsound(f"the content of {address} has the name {name}")


def check_own_fields(address: str, entry: Entry, view: type[Struct]) -> None:
    """An entry has only the fields of its kind: every other one has its default."""
    own = Entry(**{name: getattr(entry, name) for name in view.__struct_fields__})
    if entry != own:
        raise Unsound(f"{address} has fields of another kind of resource")


def nothing_to_say(before: Entry | None, after: Entry) -> str:
    return ""


def document_fields(step: Step) -> Iterator[FieldChange]:
    """What a plan shows of a change, for a kind whose entry has no fields of its own."""
    if step.is_other_content:
        yield from differences(plain(step.content_before()), plain(step.content_after()))


def to_no_node(address: str, entry: Entry, table: Table) -> Iterable[tuple[str, Section]]:
    return ()


def plain_entry(drawing: Drawing, address: str, digest: str) -> Entry:
    return Entry(digest)
