"""Check the top level of a fleet directory. Ignores foreign files, refuses what looks like a typing error."""

from collections.abc import Mapping

from holdfast.declared import later, spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.sources import Sources
from holdfast.declared.words import printable
from holdfast.ports.fleet_directory import Entry, Unreadable

FLEET_FILE = "fleet.toml"
DIRECTORIES = ("services", "policies", "secrets")
_KNOWN_DIRECTORIES = (*DIRECTORIES, *later.DIRECTORIES)
_IGNORED_FILES = ("fleet.lock",)
_NOT_A_DIRECTORY: Mapping[str, str] = {
    "symlink": "is a symbolic link; Holdfast follows no links, so that it reads nothing outside the fleet directory",
    "file": "is a file where a directory is expected",
    "other": "is not a directory (a pipe, a socket or a device)",
}


def is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def check(root: tuple[Entry, ...], sources: Sources, flaws: Flaws) -> None:
    """Note everything at the top level that is refused; `fleet.toml` itself is read elsewhere."""
    for entry in root:
        if is_hidden(entry.path) or entry.path in (FLEET_FILE, *_IGNORED_FILES):
            continue
        if entry.path in _KNOWN_DIRECTORIES:
            _check_known(entry, sources, flaws)
        elif entry.kind == "directory":
            _check_unknown_directory(entry, sources, flaws)
        elif entry.path.lower().endswith(".toml"):
            _refuse_stray_file(entry, flaws)


def _check_known(entry: Entry, sources: Sources, flaws: Flaws) -> None:
    if entry.kind != "directory":
        flaws.add(entry.path, (), _NOT_A_DIRECTORY[entry.kind], "replace it with a directory")
    elif entry.path in later.DIRECTORIES and any(not is_hidden(inner.path) for inner in sources.entries(entry.path)):
        flaws.add(entry.path, (), f"not built yet: {later.DIRECTORIES[entry.path]}", later.DIRECTORY_REMEDY)


def _check_unknown_directory(entry: Entry, sources: Sources, flaws: Flaws) -> None:
    guess = spelling.nearest(entry.path, _KNOWN_DIRECTORIES)
    try:
        inside = sources.directory.entries(entry.path)
    except Unreadable as trouble:
        if guess:  # a foreign directory may be unreadable; one with a name like Holdfast's may not
            flaws.add(entry.path, (), trouble.what, trouble.remedy)
        return
    if any(inner.path.endswith(".toml") for inner in inside):
        remedy = f'did you mean "{guess}/"?' if guess else "move its services to services/, or the directory elsewhere"
        flaws.add(entry.path, (), "holds .toml files, but Holdfast does not read this directory", remedy)


def _refuse_stray_file(entry: Entry, flaws: Flaws) -> None:
    is_slip = spelling.nearest(entry.path.lower().removesuffix(".toml"), ("fleet",))
    remedy = f'did you mean "{FLEET_FILE}"?' if is_slip else f'a service belongs in "services/{printable(entry.path)}"'
    flaws.add(entry.path, (), "Holdfast does not read this file", remedy)
