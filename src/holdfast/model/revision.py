"""A revision: header, resource table, tombstones. Immutable; operators sign the header's bytes."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.model import canonical
from holdfast.model.ids import DIGEST_PATTERN, Digest
from holdfast.model.move import Move
from holdfast.model.need import Want
from holdfast.model.route import PublicRoute

FORMAT = 1
NAMESPACE = "holdfast-revision"

DigestText = Annotated[str, Meta(pattern=DIGEST_PATTERN)]
Count = Annotated[int, Meta(ge=0, le=canonical.INT_MAX)]


class NodeIdentity(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The key of a node, and the certificate that issues for its own names. All other machines pin them."""

    key: str  # SSH public line
    issuer: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$(?!\n)")] = ""  # sha256 of the certificate's DER
    certificate: bytes = b""  # that DER, for edges that verify this node's proxy


class Entry(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One applied resource: the digest of its content, and what is needed to serve it."""

    digest: DigestText
    node: str | UnsetType = UNSET  # placement
    epoch: Count = 0
    containers: Count = 0
    protect: bool = False
    hostnames: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    images: dict[str, str] = {}  # image as written → digest it was resolved to
    secrets: dict[str, DigestText] = {}  # name → digest of what is sealed
    applies_to: tuple[str, ...] | UnsetType = UNSET
    identity: NodeIdentity | UnsetType = UNSET  # of a node that joined
    drained: bool = False  # a node that takes no new services
    failover: tuple[str, ...] = ()  # nodes that may run a service while its own is silent, first choice first
    address: str = ""  # of a node, in the overlay
    proxy: Literal["internal", "public", "none", ""] = ""  # of a node; "" in revisions of older releases
    dns: bool = False  # a node that answers for internal names
    names: tuple[str, ...] = ()  # internal names of a service, sorted
    public: dict[str, PublicRoute] = {}  # of a service, by hostname
    move: Move | UnsetType = UNSET  # of a service whose data came, or comes, from another node
    wants: dict[str, Want] = {}  # needs of a service, by name

    @property
    def needs(self) -> tuple[str, ...]:
        """Digests of everything that belongs to it: its content, and its sealed secrets."""
        return (self.digest, *self.secrets.values())


class Tombstone(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An address removed on purpose. Its data stays where it was until a signed purge."""

    digest: DigestText
    removed_in: Count
    node: str | UnsetType = UNSET
    epoch: Count = 0


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """Every applied address, and every address removed on purpose."""

    entries: dict[str, Entry]
    tombstones: dict[str, Tombstone] = {}

    def of_kind(self, kind: str) -> dict[str, Entry]:
        """The entries of one kind, by name."""
        prefix = kind + "."
        return {key.removeprefix(prefix): entry for key, entry in self.entries.items() if key.startswith(prefix)}


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    """The signed part of a revision. `fleet` is the digest of the first trust; `parent` is "" in revision 1."""

    format: int
    fleet: DigestText
    number: Count
    parent: str
    trust: DigestText
    resources: DigestText
    manifests: dict[str, DigestText]


class Head(Struct, frozen=True, forbid_unknown_fields=True):
    """The newest revision that is known."""

    number: int
    digest: str


NO_HEAD = Head(0, "")


class Candidate(Struct, frozen=True):
    """A compiled revision before its commit: signed or not, with every blob it needs."""

    header: bytes
    table: bytes
    blobs: dict[str, bytes]  # digest → content, table, manifests and new resources
    signatures: tuple[str, ...] = ()
    message: str | UnsetType = UNSET  # not signed


def encode_header(header: Header) -> bytes:
    return canonical.encode(header)


def decode_header(content: bytes) -> Header:
    return canonical.decode(content, Header, "the revision header")


def decode_table(content: bytes) -> Table:
    return canonical.decode(content, Table, "the resource table")


def digest_of(header: bytes) -> Digest:
    return canonical.digest(header)
