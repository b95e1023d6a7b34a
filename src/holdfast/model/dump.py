"""Methods of backups that run a command in a container: which one makes the dump, and which brings it back. Pure."""

from collections.abc import Mapping

from msgspec import UNSET, Struct

from holdfast.model.fleet import Component, Service, Snapshot, Volume

NAME = ".holdfast-dump"  # the path of a dump in an archive; no file of a service has it
EXEC = "exec: "
PREPARED = ("grpc", "cli")  # the service makes its files ready, then they are copied
COPY = "copy"  # of a backup whose method did not run, because the container did not (M-98)

# pg_dumpall says what exists and drops it first, so that the dump loads into a database that its image has just made.
# Roles are the exception: the one that loads the dump cannot be dropped or made again, so a role that exists stays.
_DUMP_POSTGRES = r"""
export PGPASSWORD="${PGPASSWORD-$POSTGRES_PASSWORD}"
pg_dumpall --clean --if-exists --username="${POSTGRES_USER:-postgres}" |
sed -e '1,/^\\connect/{' -e 's/^DROP ROLE IF EXISTS .*;$//' \
    -e 's/^CREATE ROLE \(.*\);$/DO $_$ BEGIN CREATE ROLE \1; EXCEPTION WHEN duplicate_object THEN END $_$;/' -e '}'
"""
_LOAD_POSTGRES = r"""
PGPASSWORD="${PGPASSWORD-$POSTGRES_PASSWORD}" exec psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --output=/dev/null \
    --username="${POSTGRES_USER:-postgres}" --dbname=postgres
"""


class Preset(Struct, frozen=True):
    """`end` is in the last lines of every whole dump: one that was cut off has no such line."""

    dump: tuple[str, ...]
    load: tuple[str, ...]
    end: str


PRESETS: Mapping[str, Preset] = {
    "postgres": Preset(
        ("sh", "-c", _DUMP_POSTGRES), ("sh", "-c", _LOAD_POSTGRES), "PostgreSQL database cluster dump complete"
    ),
}


class Dump(Struct, frozen=True):
    command: tuple[str, ...]
    end: str = ""


def is_dumped(snapshot: Snapshot) -> bool:
    """Its backups hold a dump in the place of a volume. An older release read `exec:` without `restore`, and copied
    files: so does this one, because no command would bring a dump back."""
    return snapshot.method in PRESETS or (snapshot.method.startswith(EXEC) and bool(snapshot.restore))


def is_made_by(method: str) -> bool:
    """Whether a backup of this method is a dump, as far as its receipt says."""
    return method in PRESETS or method.startswith(EXEC)


def of(snapshot: Snapshot) -> Dump | None:
    """The command whose output is the dump; None: no command makes one."""
    if (preset := PRESETS.get(snapshot.method)) is not None:
        return Dump(preset.dump, preset.end)
    if is_dumped(snapshot):
        return Dump(words(snapshot.method.removeprefix(EXEC)))
    return None


def loader(snapshot: Snapshot) -> tuple[str, ...]:
    """The command that gets a dump on its standard input; () if none is declared."""
    preset = PRESETS.get(snapshot.method)
    return words(snapshot.restore) if snapshot.restore or preset is None else preset.load


def component(service: Service) -> str:
    """The one that the commands run in; "" if the service has several and names none."""
    named = service.snapshot.component if service.snapshot is not UNSET else UNSET
    if named is not UNSET:
        return named
    return service.components[0].name if len(service.components) == 1 else ""


def place(service: Service) -> tuple[str, str] | None:
    """Component and volume that the dump stands for; None: the method makes no dump, or it is not clear."""
    if service.snapshot is UNSET or not is_dumped(service.snapshot):
        return None
    name = component(service)
    found = next((volumes(one) for one in service.components if one.name == name), [])
    if service.snapshot.volume is not UNSET:
        return (name, service.snapshot.volume) if service.snapshot.volume in found else None
    return (name, found[0]) if len(found) == 1 else None


def port(service: Service) -> int:
    """Where the component is asked for a snapshot: the port of its gRPC health check, or its only route; 0: unclear."""
    name = component(service)
    for one in service.components:
        if one.name == name:
            if one.health is not UNSET and one.health.type == "grpc" and one.health.port is not UNSET:
                return one.health.port
            ports = {route.port for route in one.routes}
            return ports.pop() if len(ports) == 1 else 0
    return 0


def volumes(component: Component) -> list[str]:
    """Those of its volumes that are backed up."""
    return [one.name for one in component.volumes if isinstance(one, Volume) and one.protect == "backup"]


def words(text: str) -> tuple[str, ...]:
    """As a shell takes them apart, without a shell; () if a quote does not end."""
    import shlex  # a plan without such a service does not load it

    try:
        return tuple(shlex.split(text))
    except ValueError:
        return ()
