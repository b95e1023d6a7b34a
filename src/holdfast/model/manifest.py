"""Everything one node must be and may know: its projection of a revision. Value only; compiled in planning/."""

from msgspec import Struct

from holdfast.model.revision import DigestText, Entry, Tombstone
from holdfast.model.route import EdgeRoute


class Named(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a service is reached inside the fleet, and by which names."""

    address: str  # of the node that runs it, in the overlay
    names: tuple[str, ...]


class NodeManifest(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Carries no revision number: a node untouched by a revision keeps its manifest byte for byte."""

    fleet: str  # fleet id
    node: str
    settings: DigestText  # of the `fleet` resource
    own: Entry  # of this node's own resource
    services: dict[str, Entry] = {}
    policies: dict[str, Entry] = {}
    storage: dict[str, Entry] = {}
    standby: dict[str, Entry] = {}  # services of other nodes that list this one in `failover`
    retired: dict[str, Tombstone] = {}  # removed from here, or removed with nobody else left to remember it
    edge: dict[str, EdgeRoute] = {}  # public hostname → where it leads; of an edge
    issuers: dict[str, bytes] = {}  # node → DER of its issuing certificate, of those that edge routes lead to
    names: dict[str, Named] = {}  # by name of the service, of every one; where DNS is served
    more: dict[str, Entry] = {}  # resources of kinds that have no field of their own here, by address

    @property
    def records(self) -> dict[str, str]:
        """What its DNS server answers: internal name → address."""
        return {name: named.address for named in self.names.values() for name in named.names}

    @property
    def held(self) -> dict[str, Entry]:
        """Every resource whose content this node may have, by address; not the fleet's settings and its own."""
        return {**self.policies, **self.standby, **self.services, **self.storage, **self.more}
