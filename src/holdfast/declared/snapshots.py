"""Check [snapshot] of a service: the commands of its method, and the volume that its dump stands for. Pure."""

from collections.abc import Mapping

from msgspec import UNSET

from holdfast.declared import spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.words import shown
from holdfast.model import dump
from holdfast.model.fleet import Component, Service, Snapshot

MEANINGS: Mapping[str, str] = {
    "method": "`postgres`: a dump by `pg_dumpall` in the place of the volume. `exec: COMMAND`: the same with what a "
    "command in the container writes to its standard output. `grpc`, `cli`: the service makes its files ready, by the "
    "call `holdfast.v1.SnapshotService/Snapshot` or the command `SERVICE snapshot`; then its volumes are copied. "
    "`full`: every file of the service's directory. Left out: volumes that are backed up, and of host paths in that "
    "directory `*.toml`, `*.db` and `*.pem`",
    "include": "more files, relative to the service's directory",
    "exclude": "files to leave out, relative to the service's directory",
    "restore": "the command that brings a dump back: it runs in the container, with the dump on its standard input. "
    "Needed for `exec:`; `postgres` has its own. With `grpc` it gets the file that the service named",
    "component": "the component whose container the commands run in; needed if the service has several",
    "volume": "the volume that the dump stands for; needed if the component has several that are backed up",
}
COMMAND = 'write a command as in a shell, for example "exec: mysqldump --all-databases"'


def check(file: str, service: Service, flaws: Flaws) -> None:
    snapshot = service.snapshot
    if snapshot is UNSET:
        return
    if snapshot.method in dump.PREPARED:
        _check_prepared(file, service, snapshot, flaws)
    if not dump.is_dumped(snapshot):
        _check_unused(file, snapshot, flaws)
        return
    _check_commands(file, snapshot, flaws)
    component = _component(file, service, snapshot, flaws)
    if component is not None:
        _check_volume(file, component, snapshot, flaws)


def _check_prepared(file: str, service: Service, snapshot: Snapshot, flaws: Flaws) -> None:
    """The service makes its files ready, and they are copied."""
    if snapshot.restore and not dump.words(snapshot.restore):
        flaws.add_checked(file, ("snapshot", "restore"), f"{shown(snapshot.restore)} has no command", COMMAND)
    component = _component(file, service, snapshot, flaws)
    if component is not None and snapshot.method == "grpc" and not dump.port(service):
        what = f"it is not clear on which port component {shown(component.name)} serves holdfast.v1.SnapshotService"
        remedy = 'give it health = { type = "grpc", port = PORT }, or one route'
        flaws.add_checked(file, ("snapshot", "method"), what, remedy)


def _check_unused(file: str, snapshot: Snapshot, flaws: Flaws) -> None:
    is_prepared = snapshot.method in dump.PREPARED
    given = {"restore": bool(snapshot.restore) and not is_prepared, "volume": snapshot.volume is not UNSET}
    for key in [key for key, is_given in given.items() if is_given]:
        what = f"has an effect only beside a method that makes a dump, and method is {shown(snapshot.method)}"
        flaws.add_checked(file, ("snapshot", key), what, 'write method = "exec: COMMAND", or remove the key')
    if snapshot.component is not UNSET and not is_prepared:
        what = f"has an effect only beside a method that runs a command, and method is {shown(snapshot.method)}"
        flaws.add_checked(file, ("snapshot", "component"), what, "remove the key")


def _check_commands(file: str, snapshot: Snapshot, flaws: Flaws) -> None:
    made = dump.of(snapshot)
    if made is not None and not made.command:
        flaws.add_checked(file, ("snapshot", "method"), f"{shown(snapshot.method)} has no command", COMMAND)
    if snapshot.restore and not dump.words(snapshot.restore):
        flaws.add_checked(file, ("snapshot", "restore"), f"{shown(snapshot.restore)} has no command", COMMAND)


def _component(file: str, service: Service, snapshot: Snapshot, flaws: Flaws) -> Component | None:
    known = {component.name: component for component in service.components}
    name = dump.component(service)
    if not name:
        what = "the service has several components, and [snapshot] does not name the one that the method is for"
        flaws.add_checked(file, ("snapshot",), what, f"write component = one of: {', '.join(sorted(known))}")
    elif name not in known:
        remedy = spelling.question(name, known) or f"one of: {', '.join(sorted(known))}"
        what = f"there is no component {shown(name)} in this service"
        flaws.add_checked(file, ("snapshot", "component"), what, remedy)
    return known.get(name)


def _check_volume(file: str, component: Component, snapshot: Snapshot, flaws: Flaws) -> None:
    found, named = dump.volumes(component), snapshot.volume
    if not found:
        what = f'component {shown(component.name)} has no volume with protect = "backup" that the dump could stand for'
        remedy = 'declare the volume of the data with name, path and protect = "backup"'
        flaws.add_checked(file, ("snapshot", "method"), what, remedy)
    elif named is UNSET and len(found) > 1:
        what = f"component {shown(component.name)} has several volumes that are backed up, and the dump stands for one"
        remedy = f"write volume = one of: {', '.join(found)}; every file of the others is in each backup"
        flaws.add_checked(file, ("snapshot",), what, remedy)
    elif named is not UNSET and named not in found:
        what = f"component {shown(component.name)} has no volume {shown(named)} that is backed up"
        flaws.add_checked(file, ("snapshot", "volume"), what, f"one of: {', '.join(found)}")
    volume = found[0] if named is UNSET and len(found) == 1 else named
    for at, pattern in enumerate(snapshot.include):
        if pattern.split("/")[0] == volume:
            what = f"{shown(pattern)} is in volume {shown(str(volume))}, and the dump stands for all of it"
            flaws.add_checked(file, ("snapshot", "include", at), what, "remove it")
