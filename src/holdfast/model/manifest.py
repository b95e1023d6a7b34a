"""A node's manifest: its part of a revision, all it may know. Value only; planning/ compiles it."""

from msgspec import Struct

from holdfast.model.move import Peer
from holdfast.model.need import Pair
from holdfast.model.revision import DigestText, Entry, Tombstone
from holdfast.model.route import EdgeRoute


class Named(Struct, frozen=True, forbid_unknown_fields=True):
    """The overlay address and the internal names of a service."""

    address: str  # of the node that runs it, in the overlay
    names: tuple[str, ...]


class NodeManifest(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Has no revision number: if a revision does not concern a node, its manifest keeps its bytes."""

    fleet: str  # fleet id
    node: str
    settings: DigestText  # of the `fleet` resource
    own: Entry  # of this node's own resource
    services: dict[str, Entry] = {}
    policies: dict[str, Entry] = {}
    storage: dict[str, Entry] = {}
    standby: dict[str, Entry] = {}  # services of other nodes that list this one in `failover`
    retired: dict[str, Tombstone] = {}  # removed from here, or removed while no other node records it
    edge: dict[str, EdgeRoute] = {}  # public hostname → its backend; on an edge
    issuers: dict[str, bytes] = {}  # node → DER of its issuing certificate, for the nodes that edge routes use
    names: dict[str, Named] = {}  # by name of the service, for all services; where DNS is served
    more: dict[str, Entry] = {}  # resources of kinds without their own field, by address
    handover: dict[str, Entry] = {}  # services of other nodes whose data this one hands over
    peers: dict[str, Peer] = {}  # nodes that it hands data to, or gets it from, and those of its pairs
    pairs: tuple[Pair, ...] = ()  # needs of services here, and needs that this node provides for; sorted

    @property
    def records(self) -> dict[str, str]:
        """The records of its DNS server: internal name → address."""
        return {name: named.address for named in self.names.values() for name in named.names}

    @property
    def held(self) -> dict[str, Entry]:
        """All resources whose content this node may have, by address; without the fleet's settings and its own."""
        return {**self.policies, **self.standby, **self.services, **self.storage, **self.more}
