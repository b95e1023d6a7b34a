"""A container: the wanted spec and the observed state. Values only; runtime adapters translate them."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.fleet import Health, Route
from holdfast.model.schema import Duration

LABEL_FLEET = "holdfast.fleet"
LABEL_SERVICE = "holdfast.service"
LABEL_COMPONENT = "holdfast.component"
LABEL_DEPLOYMENT = "holdfast.deployment"
LABEL_EPOCH = "holdfast.epoch"
LABEL_SPEC = "holdfast.spec"  # digest of the spec it was made from: shows drift without inspecting it
LABEL_REPLICA = "holdfast.replica"
LABEL_INFRASTRUCTURE = "holdfast.infrastructure"  # of a node itself, or runs once; belongs to no service
LABEL_SEALED = "holdfast.sealed-env"  # names of secret variables: commands run inside later get them too
# A container inherits the labels of its image that it is not given: so the agent sets all of these.
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
    owner: str = ""  # `UID:GID` that everything in it belongs to; "" leaves it as it is


class SecretUse(Struct, frozen=True, omit_defaults=True):
    """A secret as one component declares it: as the file `/run/secrets/<file>` or as the variable `env`."""

    name: str
    digest: str  # of the ciphertext: a rotated secret is another spec
    file: str = ""
    env: str = ""


class NeedUse(Struct, frozen=True):
    """A need of the service, as one component finds it: a directory with a file for each field."""

    name: str
    path: str


STOP_S = 10


class ContainerSpec(Struct, frozen=True, omit_defaults=True):
    """Everything that defines a container. What may change without a new container is not here (health, replicas); nor
    are the host ports, which are chosen when it is created: only whether other machines than the node may use
    them."""

    fleet: str  # fleet id
    service: str
    component: str
    epoch: int
    image: str  # as written
    digest: str  # sha256:…, "" where the tag could not be resolved
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()  # sorted
    secrets: tuple[SecretUse, ...] = ()
    mounts: tuple[Mount, ...] = ()
    ports: tuple[int, ...] = ()  # in the container; each is published on a port of the node
    network: str = ""  # of a service with several components; "" is the runtime's own
    cpu_millicores: int = 0
    memory_bytes: int = 0
    exposed: bool = False  # its ports listen on the overlay, because the node has no proxy
    user: str = ""  # `USER[:GROUP]` that its program runs as; "" is the one of the image
    stop_s: int = STOP_S  # from the request to end until it is killed
    needs: tuple[NeedUse, ...] = ()  # their declaration; values change without a new container

    @property
    def reference(self) -> str:
        """The image to pull and run: by digest if it is known."""
        if not self.digest or "@" in self.image:
            return self.image
        name, colon, tag = self.image.rpartition(":")
        return f"{name if colon and '/' not in tag else self.image}@{self.digest}"


def spec_digest(spec: ContainerSpec) -> str:
    return canonical.digest(canonical.encode(spec))


SETTLE: Duration = "3s"


class Part(Struct, frozen=True):
    """One wanted component of a service: its container, its count, and how it is updated and probed."""

    spec: ContainerSpec
    digest: str  # of the spec
    replicas: int = 1
    recreate: bool = False  # two may never run at once: it has data
    health: Health | UnsetType = UNSET
    pre_deploy: tuple[str, ...] = ()
    post_deploy: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()  # may change without a new container, unless a port is new
    runs: tuple[tuple[str, ...], ...] = ()  # commands of its schedules: they get its volumes too
    off: tuple[str, ...] = ()  # sources of its mounts of which no checkpoint is made
    scratch: tuple[str, ...] = ()  # paths in the container whose content may be lost with it
    settle: Duration = SETTLE  # without any check, it is healthy when it has lived so long

    @property
    def checks(self) -> tuple[Health, ...]:
        """The declared check. Each port of its routes that this does not ask must take a connection, at its times."""
        own = () if self.health is UNSET else (self.health,)
        asked = {check.port for check in own if check.type != "exec"}
        times = replace(own[0], type="tcp", path=UNSET, cmd=()) if own else Health("tcp")
        return *own, *(replace(times, port=port) for port in sorted({route.port for route in self.routes} - asked))


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


# paused: its processes are frozen, by hand. They go on when they are told to, so it counts as running.
ContainerPhase = Literal["created", "running", "paused", "exited", "other"]


class Container(Struct, frozen=True, omit_defaults=True):
    """A container on this machine, of the fleet or foreign. `running` is true only for a living process, whatever state
    the product reports: a container without its process does not run, a zombie does not run."""

    id: str
    name: str
    phase: ContainerPhase
    running: bool = False
    labels: dict[str, str] = {}
    image: str = ""  # as requested
    pid: int = 0  # 0 unless running
    address: str = ""  # its own address, as the node reaches it
    ports: tuple[Published, ...] = ()
    created_s: float = 0.0
    started_s: float = 0.0
    ended_s: float = 0.0  # of its last end
    exit_code: int = 0  # negative: its process is gone, and the runtime has not noted its code
    restarts: int = 0  # by the runtime, since it was last started otherwise
    last_exit: int | None = None  # of a process of it that ended, as far as the runtime told
    oom: bool = False  # that process was killed because the container had no memory left

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
    def last_end(self) -> str:
        """For people: `7`, `137 oom`; "" if no end of it is known."""
        if self.last_exit is None or self.last_exit < 0:
            return ""
        return f"{self.last_exit}{' oom' if self.oom else ''}"

    @property
    def replica(self) -> int:
        text = self.labels.get(LABEL_REPLICA, "0")
        return int(text) if text.isdigit() else 0


def is_same(labels: dict[str, str], others: dict[str, str]) -> bool:
    """Same spec and same place; the deployment that created it does not matter."""
    return all(labels.get(key, "") == others.get(key, "") for key in (LABEL_FLEET, LABEL_SPEC, LABEL_REPLICA))


def name_of(spec: ContainerSpec, digest: str, replica: int) -> str:
    """The same name for the same thing, so that after a crash it is found and not created twice. Names of services and
    components have no underscore, so no service can take another's name, and with it its secrets."""
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
