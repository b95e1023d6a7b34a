"""The containers of a drill: the service as it serves, on restored data, in a closed network. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.container import ContainerSpec, Guest, Mount, Part
from holdfast.ports.runtime import Closed
from holdfast.reconcile import closed

KIND = "drill"
CPU_MILLICORES = 1000  # of a component that declares none
MEMORY_BYTES = 2 << 30
STOP_S = 1  # nothing of it is kept


class Copy(Struct, frozen=True):
    """One container. `places`: source of each mount, relative to the data of the service ("" is all of it)."""

    name: str
    part: Part
    spec: ContainerSpec
    places: tuple[str, ...]

    @property
    def reader(self) -> str:
        """The container that reads its image, for volumes that the backup did not bring."""
        return f"{self.name}-image"


class Staged(Struct, frozen=True):
    """Everything that a drill makes, by name: noted before any of it exists."""

    service: str
    id: str  # of its scratch directory
    network: str
    containers: tuple[str, ...]


def outside(guest: Guest, data_dir: str) -> str | None:
    """A path of the host that it mounts and that is not its own data: no backup has it, and a drill must not have the
    real one."""
    own = f"{data_dir}/{guest.service}"
    sources = (mount.source for part in guest.parts for mount in part.spec.mounts)
    return next((one for one in sources if one != own and not one.startswith(own + "/")), None)


def copies(guest: Guest, token: str, data_dir: str, top: str) -> tuple[Copy, ...]:
    """One container for each component, whatever its replicas. `token` tells drills apart; `top` is the scratch."""
    return tuple(_copy(part, token, f"{data_dir}/{guest.service}", top) for part in guest.parts)


def _copy(part: Part, token: str, own: str, top: str) -> Copy:
    spec = part.spec
    places = tuple(mount.source.removeprefix(own).strip("/") for mount in spec.mounts)
    made = replace(
        spec,
        mounts=tuple(
            Mount(f"{top}/{place}".rstrip("/"), mount.target, mount.read_only)
            for place, mount in zip(places, spec.mounts, strict=True)
        ),
        ports=(),
        network=network_of(spec.fleet, spec.service, token),
        cpu_millicores=spec.cpu_millicores or CPU_MILLICORES,
        memory_bytes=spec.memory_bytes or MEMORY_BYTES,
        exposed=False,
        stop_s=STOP_S,
    )
    return Copy(f"hf-{spec.fleet[:6]}-{spec.service}_{KIND}-{spec.component}-{token}", part, made, places)


def service_of(container: str) -> str:
    """From the name of one of its containers."""
    return container[len("hf-") + 6 + 1 :].partition(f"_{KIND}-")[0]


def network_of(fleet: str, service: str, token: str) -> str:
    return f"hf-{fleet[:6]}-{service}_{KIND}-{token}"


def staged(guest: Guest, token: str, every: tuple[Copy, ...]) -> Staged:
    network = every[0].spec.network
    readers = (copy.reader for copy in every if copy.places)
    containers = (*(copy.name for copy in every), *readers)
    return Staged(guest.service, f"{guest.service}-{token}", network, containers)


def addresses(subnet: str, every: tuple[Copy, ...]) -> dict[str, Closed]:
    """By name of the container."""
    found = closed.places(subnet, [copy.spec.component for copy in every])
    return {copy.name: place for copy, place in zip(every, found, strict=True)}
