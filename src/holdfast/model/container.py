"""One container: what it must be, what it is. Values only; the runtime adapter knows how a product is told."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from holdfast.model import canonical
from holdfast.model.fleet import Health, Route

LABEL_FLEET = "holdfast.fleet"
LABEL_SERVICE = "holdfast.service"
LABEL_COMPONENT = "holdfast.component"
LABEL_DEPLOYMENT = "holdfast.deployment"
LABEL_EPOCH = "holdfast.epoch"
LABEL_SPEC = "holdfast.spec"  # digest of the spec it was made from: drift is seen without asking for details
LABEL_REPLICA = "holdfast.replica"
LABEL_INFRASTRUCTURE = "holdfast.infrastructure"  # what a node needs itself, and what runs once; no service's
LABEL_SEALED = "holdfast.sealed-env"  # the names of secret variables: commands run inside later get them too
# An image has labels, too, and a container inherits whichever it is not given: these are ours to give, all of them.
OUR_LABELS = (
    LABEL_FLEET,
    LABEL_SERVICE,
    LABEL_COMPONENT,
    LABEL_DEPLOYMENT,
    LABEL_EPOCH,
    LABEL_SPEC,
    LABEL_REPLICA,
    LABEL_INFRASTRUCTURE,
    LABEL_SEALED,
)


class Mount(Struct, frozen=True, omit_defaults=True):
    source: str  # absolute, on the node
    target: str
    read_only: bool = False


class SecretUse(Struct, frozen=True, omit_defaults=True):
    """A secret as one component wants it: as the file `/run/secrets/<file>` or as the variable `env`."""

    name: str
    digest: str  # of the ciphertext: a rotated secret is another spec
    file: str = ""
    env: str = ""


class ContainerSpec(Struct, frozen=True, omit_defaults=True):
    """Everything that makes a container the one that is wanted. What may change without a new container is not here
    (health, replicas); nor is the host's side of its ports, which is chosen when it is made: only whether others than
    the node itself may use them."""

    fleet: str  # fleet id
    service: str
    component: str
    epoch: int
    image: str  # as written
    digest: str  # sha256:…, "" where nobody could resolve the tag
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()  # sorted
    secrets: tuple[SecretUse, ...] = ()
    mounts: tuple[Mount, ...] = ()
    ports: tuple[int, ...] = ()  # inside; each is published on a port of the node
    network: str = ""  # of a service with several components; "" is the runtime's own
    cpu_millicores: int = 0
    memory_bytes: int = 0
    exposed: bool = False  # its ports answer the overlay, because no proxy of the node does

    @property
    def reference(self) -> str:
        """What is pulled and run: by digest wherever one is known."""
        if not self.digest or "@" in self.image:
            return self.image
        name, colon, tag = self.image.rpartition(":")
        return f"{name if colon and '/' not in tag else self.image}@{self.digest}"


def spec_digest(spec: ContainerSpec) -> str:
    return canonical.digest(canonical.encode(spec))


class Part(Struct, frozen=True):
    """One wanted component of a service: its container, how many of it, and how it is changed and looked after."""

    spec: ContainerSpec
    digest: str  # of the spec
    replicas: int = 1
    recreate: bool = False  # two of it may never run at once: it has data
    health: Health | UnsetType = UNSET
    pre_deploy: tuple[str, ...] = ()
    post_deploy: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()  # may change without a new container, unless a port is new


class Guest(Struct, frozen=True):
    """A service as one node must run it. `deployment` names this attempt; `wanted` is False for `active = false`."""

    service: str
    deployment: str
    epoch: int
    parts: tuple[Part, ...]
    active: bool = True


class Published(Struct, frozen=True):
    inside: int
    address: str  # of the node
    outside: int


ContainerPhase = Literal["created", "running", "exited", "other"]


class Container(Struct, frozen=True, omit_defaults=True):
    """One that exists on this machine, ours or not. `running` is true of a living process only, whatever the product
    says of its state: a dead supervisor does not make it live, a zombie is not alive."""

    id: str
    name: str
    phase: ContainerPhase
    running: bool = False
    labels: dict[str, str] = {}
    image: str = ""  # as it was asked for
    pid: int = 0  # 0 unless running
    address: str = ""  # its own, where the node can reach it
    ports: tuple[Published, ...] = ()
    created_s: float = 0.0
    started_s: float = 0.0
    exit_code: int = 0
    restarts: int = 0

    @property
    def service(self) -> str:
        return self.labels.get(LABEL_SERVICE, "")

    @property
    def component(self) -> str:
        return self.labels.get(LABEL_COMPONENT, "")

    @property
    def spec(self) -> str:
        return self.labels.get(LABEL_SPEC, "")

    @property
    def replica(self) -> int:
        text = self.labels.get(LABEL_REPLICA, "0")
        return int(text) if text.isdigit() else 0


def is_same(labels: dict[str, str], others: dict[str, str]) -> bool:
    """Made from the same spec for the same place; which deployment asked for it first does not matter."""
    return all(labels.get(key, "") == others.get(key, "") for key in (LABEL_FLEET, LABEL_SPEC, LABEL_REPLICA))


def name_of(spec: ContainerSpec, digest: str, replica: int) -> str:
    """The same for the same thing, so that after a crash it is found and not made twice. Names of services and
    components have no underscore, so no service can make one of another's names, and with it get at its secrets."""
    return f"hf-{spec.fleet[:6]}-{spec.service}_{spec.component}-{replica}-{digest[:8]}"


def labels_of(spec: ContainerSpec, digest: str, deployment: str, replica: int) -> dict[str, str]:
    return {
        LABEL_FLEET: spec.fleet,
        LABEL_SERVICE: spec.service,
        LABEL_COMPONENT: spec.component,
        LABEL_DEPLOYMENT: deployment,
        LABEL_EPOCH: str(spec.epoch),
        LABEL_SPEC: digest,
        LABEL_REPLICA: str(replica),
    }
