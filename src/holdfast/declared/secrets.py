"""Read the sealed files in secrets/, one secret each. Reads their outside; cannot open them."""

from collections.abc import Collection, Sequence

from msgspec import UNSET

from holdfast.declared import spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE, is_hidden
from holdfast.declared.sources import Sources
from holdfast.declared.words import Path, shown
from holdfast.model import sealed
from holdfast.model.fleet import AlertTarget, FleetFile, Service, Storage
from holdfast.model.ids import is_name
from holdfast.model.secret import doubled, refs_of, secrets_of
from holdfast.ports.fleet_directory import Entry

DIRECTORY = "secrets"
SUFFIX = ".age"


def path_of(name: str) -> str:
    return f"{DIRECTORY}/{name}{SUFFIX}"


def read(sources: Sources, flaws: Flaws) -> dict[str, bytes | None]:
    """Every secret by name, sealed and without armour; None for a file that exists and was refused."""
    entries = [entry for entry in sources.entries(DIRECTORY) if not is_hidden(entry.path)]
    if not sources.fit(DIRECTORY, entries, sealed.FILE_BYTES_MAX):
        return {_stem(entry.path): None for entry in entries}
    return {_stem(entry.path): _secret(entry, sources, flaws) for entry in entries}


def _stem(path: str) -> str:
    return path[len(DIRECTORY) + 1 :].removesuffix(SUFFIX)


def _secret(entry: Entry, sources: Sources, flaws: Flaws) -> bytes | None:
    name = _stem(entry.path)
    if entry.kind == "file" and not entry.path.endswith(SUFFIX):
        what = f"does not end in {SUFFIX}; only sealed values belong in {DIRECTORY}/"
        flaws.add(entry.path, (), what, "seal it: holdfast secret set NAME --file FILE; then remove this file")
        return None
    if not is_name(name):
        what = f"{shown(name)} cannot be the name of a secret"
        rule = "rename the file: at most 40 lower-case letters, digits and dashes, starting with a letter"
        flaws.add(entry.path, (), what, rule)
        return None
    content = sources.read(entry, sealed.FILE_BYTES_MAX)
    if content is None:
        return None
    try:
        plain = sealed.bare(content)
        sealed.read(plain)
    except sealed.NotSealed as trouble:
        remedy = f"restore it from version control, or remove it and run: holdfast secret set {name}"
        flaws.add(entry.path, (), str(trouble), remedy)
        return None
    return plain


def check_service(file: str, service: Service, known: Collection[str] | None, flaws: Flaws) -> None:
    """`known`: names that have a file; None while the command is about to make missing ones."""
    for at, component in enumerate(service.components):
        where: Path = ("components", at, "secrets")
        for index, ref in enumerate(refs_of(component)):
            _check_known(file, (*where, index), ref.name, known, flaws)
        if shared := doubled(component):
            what = f"two secrets would become {shared} of this component"
            flaws.add_checked(file, where, what, 'give one another name: { name = "…", file = "…" } or env = "…"')


def check_targets(file: FleetFile, known: Collection[str] | None, flaws: Flaws) -> None:
    """Those of alerts, of storage, and of what nodes provide."""
    tables: tuple[tuple[str, Sequence[AlertTarget | Storage]], ...] = (
        ("alerts", file.alerts),
        ("storage", file.storage),
    )
    for table, targets in tables:
        for at, target in enumerate(targets):
            if target.secret is not UNSET:
                _check_known(FLEET_FILE, (table, at, "secret"), target.secret, known, flaws)
    for at, provides in enumerate(file.provides):
        where = ("provides", at, "params", "secret")
        for name in () if flaws.touch(FLEET_FILE, where) else secrets_of(provides):
            _check_known(FLEET_FILE, where, name, known, flaws)


def _check_known(file: str, where: Path, name: str, known: Collection[str] | None, flaws: Flaws) -> None:
    if known is not None and name not in known:
        guess = spelling.question(name, known)
        remedy = f"holdfast secret set {name}" + (f"; or {guess}" if guess else "")
        flaws.add_checked(file, where, f"there is no {path_of(name)}", remedy)
