"""Needs of services and what provides them: as declared, as pairs in manifests, as reported. Values only."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from holdfast.model import canonical
from holdfast.model.schema import AbsolutePath, Duration, NameText, OnChange, Table, Text

BUILT_IN = ("postgres",)  # every other type is a handler program of the provider
MOUNTED_AT = "/run/needs"
NAME_BYTES_MAX = 60
FIELDS_MAX = 16
VALUE_CHARS_MAX = 16 * 1024

ParamName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,39}$(?!\n)", description="a lower-case name")]
Params = Annotated[dict[ParamName, Text], Meta(max_length=32)]


class Deliver(Table, frozen=True):
    """Where containers find the answer: one file for each field, beneath `path`."""

    path: AbsolutePath | UnsetType = UNSET
    components: tuple[NameText, ...] = ()  # none: every component


class Need(Table, frozen=True):
    name: NameText
    type: NameText
    provider: NameText | UnsetType = UNSET
    params: Params = field(default_factory=dict)
    deliver: Deliver = Deliver()
    on_change: OnChange = "restart"
    required: bool = False

    @property
    def path(self) -> str:
        return f"{MOUNTED_AT}/{self.name}" if self.deliver.path is UNSET else self.deliver.path


class Provides(Table, frozen=True):
    """What one node gives to services that need it."""

    node: NameText
    type: NameText
    services: Annotated[tuple[NameText, ...], Meta(min_length=1, max_length=1000)]
    params: Params = field(default_factory=dict)
    grace: Duration = "7d"
    ttl: Duration | UnsetType = UNSET

    @property
    def name(self) -> str:
        """The second part of its address, `provides.NODE.TYPE`."""
        return f"{self.node}.{self.type}"


class Want(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One need in the table entry of its service. `provider` was chosen by planning; `facts` are the settings of that
    provider which a consumer has to know, such as host and port: an answer cannot change them."""

    type: str
    provider: str
    params: dict[str, str] = {}
    facts: dict[str, str] = {}


class Pair(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """In the manifests of two nodes: `consumer` may ask `provider` for this need of this service, and nothing else."""

    service: str
    need: str
    type: str
    consumer: str
    provider: str
    epoch: int  # of the service
    params: dict[str, str] = {}
    facts: dict[str, str] = {}


class Grantee(Struct, frozen=True, forbid_unknown_fields=True):
    """Who gets one credential: each generation of it is another login to the same resource."""

    fleet: str
    service: str
    need: str
    node: str
    generation: int
    epoch: int = 0
    params: dict[str, str] = {}

    @property
    def resource(self) -> str:
        """Of the data: the same on every node and in every generation."""
        return named((self.service, self.need), (self.fleet, self.service, self.need))

    @property
    def login(self) -> str:
        whole = (self.fleet, self.service, self.need, self.node, str(self.generation))
        return named((self.service, self.node), whole)


def named(words: tuple[str, ...], whole: tuple[str, ...]) -> str:
    """A name for people that no two different things have: a prefix of words, and 16 digits of a digest."""
    digest = canonical.digest(canonical.encode(whole))[:16]
    prefix = "_".join(words).replace("-", "_")[: NAME_BYTES_MAX - 17]
    return f"{prefix}_{digest}"


NeedPhase = Literal["waiting", "fulfilled", "failed", "expired"]


class NeedState(Struct, frozen=True, omit_defaults=True):
    """In the report of the consumer. `since_s`: when it came into this state; `why`: what it waits for."""

    service: str
    name: str
    type: str
    provider: str
    state: NeedPhase
    generation: int = 0
    since_s: float = 0.0
    until_s: float = 0.0  # end of its ttl; 0 without one
    tries: int = 0
    next_s: float = 0.0  # of the next try
    why: str = ""
    required: bool = False


class NeedStates(Struct, frozen=True):
    """The part of a report that has them."""

    needs: tuple[NeedState, ...] = ()


GrantPhase = Literal["issued", "held", "unused", "disabled", "revoking"]


class GrantState(Struct, frozen=True, omit_defaults=True):
    """In the report of the provider. `goes_s`: seconds of confirmed absence that are missing before it is revoked."""

    service: str
    need: str
    node: str
    type: str
    handle: str
    state: GrantPhase
    generation: int = 1
    epoch: int = 0
    issued_s: float = 0.0
    goes_s: float | UnsetType = UNSET
    why: str = ""


class GrantStates(Struct, frozen=True):
    """The part of a report that has them."""

    grants: tuple[GrantState, ...] = ()
