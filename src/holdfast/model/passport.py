"""The passport of a volume: what this node knows of one data directory. Values only."""

from msgspec import Struct

NAMESPACE = "holdfast-passport"


class Passport(Struct, frozen=True, omit_defaults=True):
    """`place` is the path below the data directory, such as `web/uploads`.

    `writers` are the digests of all containers that may write into it (reconcile/writers.py). Those of a deployment
    that is not proven yet are in `attempt`: they count for that deployment only, until it failed.
    """

    place: str
    service: str
    maker: str  # the deployment that made it, the order that adopted it, or TAKEN_OVER
    writers: tuple[str, ...] = ()  # sorted
    deployment: str = ""
    attempt: tuple[str, ...] = ()  # sorted
    checkpoint: str = ""  # id of the last one
    revision: int = 0  # that brought the writers; 0: not known
    is_new: bool = False  # made just now: it takes what its image has there before a container gets it
    owner: str = ""  # the last declared owner that all of it was given to, or IN_DOUBT
    epoch: int = 0  # of the deployment that wrote it last; 0: not known
    began: tuple[int, ...] = ()  # while no container has had it: the entries and bytes that it began with

    def admits(self, writers: frozenset[str], deployment: str) -> bool:
        is_under_way = deployment != "" and deployment == self.deployment
        return writers <= {*self.writers, *(self.attempt if is_under_way else ())}


IN_DOUBT = "?"  # an agent began to give it to another owner: some of it may belong to the new one
TAKEN_OVER = "taken over"  # from a release that kept no passports


class SignedPassport(Struct, frozen=True):
    """The copy beside the data: it counts if this node's own key signed it."""

    text: bytes  # Bound as JSON
    signature: str


class Bound(Struct, frozen=True):
    """What is signed: a passport of one node of one fleet."""

    fleet: str
    node: str
    passport: Passport
