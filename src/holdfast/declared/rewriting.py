"""Which files of a fleet directory must change so that it says what a revision says. Pure.

A file that says it already is not touched, so that its comments stay. fleet.toml and the policies belong together.
"""

from collections.abc import Callable, Iterator, Mapping, Set

from msgspec import Struct

from holdfast.declared import policies, secrets, services
from holdfast.declared.layout import FLEET_FILE, is_hidden
from holdfast.declared.problem import Problems
from holdfast.declared.sources import FILE_BYTES_MAX, SERVICE_BYTES_MAX
from holdfast.errors import HoldfastError
from holdfast.model import canonical, sealed
from holdfast.model.fleet import Fleet
from holdfast.model.revision import Table
from holdfast.planning.kinds.every import documents
from holdfast.ports.fleet_directory import FleetDirectory

Files = Mapping[str, bytes]
_FOLDERS = (
    (services.DIRECTORY, services.SUFFIX, SERVICE_BYTES_MAX),
    (policies.DIRECTORY, policies.SUFFIX, FILE_BYTES_MAX),
    (secrets.DIRECTORY, secrets.SUFFIX, sealed.FILE_BYTES_MAX),
)


class Rewriting(Struct, frozen=True):
    """By path. `before` has what is there now, of each file that is written or removed."""

    written: Files
    removed: tuple[str, ...]
    before: Files

    def __bool__(self) -> bool:
        return bool(self.written or self.removed)


def read(directory: FleetDirectory) -> dict[str, bytes]:
    """Every file that a fleet may consist of. Raises Unreadable: a file that cannot be read could not be kept."""
    root = {entry.path: entry.kind for entry in directory.entries()}
    found = {FLEET_FILE: directory.read(FLEET_FILE, FILE_BYTES_MAX)} if FLEET_FILE in root else {}
    for folder, suffix, bytes_max in _FOLDERS:
        for entry in directory.entries(folder) if folder in root else ():
            if entry.path.endswith(suffix) and not is_hidden(entry.path):
                found[entry.path] = directory.read(entry.path, bytes_max)
    return found


def rewriting(current: Files, rendered: Files, table: Table, load: Callable[[Files], Fleet]) -> Rewriting:
    """`current`: the files of the directory; those that the fleet does not use, and unused secrets, stay."""
    changed = _changed(current, rendered, table, load)
    wanted = _mixed(current, rendered, changed)
    written = {path: text for path, text in wanted.items() if current.get(path) != text}
    removed = tuple(sorted(path for path in current if path not in wanted and not _is_secret(path)))
    before = {path: current[path] for path in (*written, *removed) if path in current}
    return Rewriting(written, removed, before)


def _changed(current: Files, rendered: Files, table: Table, load: Callable[[Files], Fleet]) -> Set[str]:
    """The files whose rendered form is needed: more of them until the directory loads and says the same."""
    changed: set[str] = set()
    while changed < rendered.keys():
        try:
            wrong = set(_differing(load(_mixed(current, rendered, changed)), table))
            if not wrong:
                break
        except Problems as trouble:
            wrong = {problem.file for problem in trouble.problems}
        except HoldfastError:  # no fleet.toml
            wrong = {FLEET_FILE}
        more = {FLEET_FILE if _is_shared(path) else path for path in wrong if _is_shared(path) or path in rendered}
        if FLEET_FILE not in changed and (FLEET_FILE in more or more <= changed):
            changed = {FLEET_FILE}  # services may be wrong because of it: with the other one they may be right
        elif more <= changed:
            return set(rendered)
        else:
            changed |= more
    return changed


def _mixed(current: Files, rendered: Files, changed: Set[str]) -> dict[str, bytes]:
    shared = rendered if FLEET_FILE in changed else current
    found = {path: text for path, text in shared.items() if _is_shared(path)}
    for path, text in rendered.items():
        if not _is_shared(path):
            found[path] = text if path in changed else current.get(path, text)
    return found


def _differing(fleet: Fleet, table: Table) -> Iterator[str]:
    """Files of the resources and secrets that differ from the table."""
    texts = documents(fleet)
    for address in texts.keys() | table.entries.keys():
        entry, text = table.entries.get(address), texts.get(address)
        if entry is None or text is None or entry.digest != canonical.digest(text):
            name = address.removeprefix("service.")
            yield FLEET_FILE if name == address else services.path_of(name)
    for name, policy in fleet.policies.items():
        entry = table.entries.get(f"policy.{name}")
        if entry is not None and entry.applies_to != policy.applies_to:
            yield FLEET_FILE
    for entry in table.entries.values():
        for name, digest in entry.secrets.items():
            if canonical.digest(fleet.secrets.get(name, b"")) != digest:
                yield secrets.path_of(name)


def _is_shared(path: str) -> bool:
    return path == FLEET_FILE or path.startswith(policies.DIRECTORY + "/")


def _is_secret(path: str) -> bool:
    return path.startswith(secrets.DIRECTORY + "/")
