"""Methods of backups that run a command in a container: which one makes the dump, and which brings it back. Pure."""

import shlex
from collections.abc import Mapping

from msgspec import Struct

from holdfast.model.fleet import Snapshot

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


def is_dumped(method: str) -> bool:
    """Its backups hold a dump in the place of a volume."""
    return method in PRESETS or method.startswith(EXEC)


def of(snapshot: Snapshot) -> Dump | None:
    """The command whose output is the dump; None: no command makes one."""
    if (preset := PRESETS.get(snapshot.method)) is not None:
        return Dump(preset.dump, preset.end)
    if snapshot.method.startswith(EXEC):
        return Dump(words(snapshot.method.removeprefix(EXEC)))
    return None


def loader(snapshot: Snapshot) -> tuple[str, ...]:
    """The command that gets a dump on its standard input; () if none is declared."""
    preset = PRESETS.get(snapshot.method)
    return words(snapshot.restore) if snapshot.restore or preset is None else preset.load


def words(text: str) -> tuple[str, ...]:
    """As a shell takes them apart, without a shell; () if a quote does not end."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return ()
