"""Read and check the service files, one service each."""

from msgspec import UNSET

from holdfast.declared import toml_file
from holdfast.declared.check import check
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import is_hidden
from holdfast.declared.sources import SERVICE_BYTES_MAX, Sources
from holdfast.declared.words import shown
from holdfast.model.fleet import Service
from holdfast.model.ids import is_name
from holdfast.ports.fleet_directory import Entry

DIRECTORY = "services"
SUFFIX = ".toml"
_OTHER_FORMATS = (".yaml", ".yml", ".json", ".tml")


def path_of(name: str) -> str:
    return f"{DIRECTORY}/{name}{SUFFIX}"


def stem_of(path: str) -> str:
    return path[len(DIRECTORY) + 1 : -len(SUFFIX)]


def read(sources: Sources, flaws: Flaws) -> dict[str, Service | None]:
    """Every service by name, sorted by name; None for a file that could not be read at all."""
    entries = [entry for entry in sources.entries(DIRECTORY) if not is_hidden(entry.path)]
    for entry in entries:
        if not entry.path.endswith(SUFFIX):
            _check_other(entry, flaws)
    entries = [entry for entry in entries if entry.path.endswith(SUFFIX)]
    if not sources.fit(DIRECTORY, entries, SERVICE_BYTES_MAX):
        return {stem_of(entry.path): None for entry in entries}
    return {stem_of(entry.path): _service(entry, sources, flaws) for entry in entries}


def _check_other(entry: Entry, flaws: Flaws) -> None:
    if entry.kind == "directory":
        flaws.add(entry.path, (), "is a directory, and services are not read from it", "move its files to services/")
    elif entry.kind == "symlink":
        flaws.add(entry.path, (), "is a symbolic link; Holdfast follows no links", "remove it, or copy its files here")
    elif entry.path.lower().endswith((*_OTHER_FORMATS, SUFFIX)):
        flaws.add(entry.path, (), "services are read from files that end in .toml", "write it as TOML and rename it")


def _service(entry: Entry, sources: Sources, flaws: Flaws) -> Service | None:
    path, stem = entry.path, stem_of(entry.path)
    if not is_name(stem):
        flaws.add(
            path,
            (),
            f"{shown(stem)} cannot be the name of a service",
            "rename the file: at most 40 lower-case letters, digits and dashes, starting with a letter",
        )
    content = sources.read(entry, SERVICE_BYTES_MAX)
    if content is None:
        return None
    try:
        document = toml_file.parse(content)
    except toml_file.NotToml as trouble:
        flaws.add(path, (), trouble.message, trouble.remedy, trouble.line)
        return None
    service = check(document, Service, path, content, flaws)
    if service.name is not UNSET and service.name != stem:
        what = f"is {shown(service.name)}, but the file is named {shown(stem)}"
        flaws.add_checked(path, ("name",), what, "remove the key, or rename the file")
    return service
