"""Load a fleet directory into a Fleet, or raise with all mistakes. Pure but for what the port reads."""

from collections.abc import Collection

from holdfast.declared import (
    fleet_file,
    health,
    layout,
    policies,
    routes,
    secrets,
    service_rules,
    services,
    spelling,
)
from holdfast.declared.check import UNKNOWN_SETTINGS
from holdfast.declared.flaw import Flaws
from holdfast.declared.fleet_file import Declared
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.sources import FILE_BYTES_MAX, Sources
from holdfast.errors import Invalid
from holdfast.model.fleet import Fleet, Policy, Service
from holdfast.ports.fleet_directory import Entry, FleetDirectory


def load(directory: FleetDirectory, secrets_may_lack: bool = False) -> Fleet:
    """Return a fleet only when every file was read whole and every rule holds; else raise (I-37).

    `secrets_may_lack`: a secret without a file is no mistake; for commands that are about to make it."""
    flaws = Flaws()
    sources = Sources(directory, flaws)
    root = directory.entries()
    declared = _fleet_file(root, sources, flaws)
    layout.check(root, sources, flaws)
    kinds = {entry.path: entry.kind for entry in root}
    found = services.read(sources, flaws) if kinds.get(services.DIRECTORY) == "directory" else {}
    texts = policies.read(sources, flaws) if kinds.get(policies.DIRECTORY) == "directory" else {}
    sealed = secrets.read(sources, flaws) if kinds.get(secrets.DIRECTORY) == "directory" else {}
    checked = _check_services(found, declared, None if secrets_may_lack else sealed, flaws)
    if declared is None:
        raise flaws.problems(sources.contents)
    secrets.check_targets(declared.file, None if secrets_may_lack else sealed, flaws)
    bound = policies.bind(declared.file.policies, texts, found, flaws)
    policies.check_unbound(declared.policy_files, texts, flaws)
    if flaws:
        raise flaws.problems(sources.contents)
    return _fleet(declared, checked, bound, {name: content for name, content in sealed.items() if content is not None})


def _fleet_file(root: tuple[Entry, ...], sources: Sources, flaws: Flaws) -> Declared | None:
    found = next((entry for entry in root if entry.path == FLEET_FILE), None)
    if found is None:
        raise missing(root, sources.directory.name)
    content = sources.read(found, FILE_BYTES_MAX)
    if content is None:
        return None
    if not any(line.strip() and not line.lstrip().startswith(b"#") for line in content.splitlines()):
        raise _blank(sources.directory.name)
    return fleet_file.read(content, flaws)


def _check_services(
    found: dict[str, Service | None], declared: Declared | None, sealed: Collection[str] | None, flaws: Flaws
) -> dict[str, Service]:
    claims: dict[str, str] = {}
    checked: dict[str, Service] = {}
    nodes = {node.name: node for node in declared.file.nodes} if declared else {}
    provided = {one.name: one for one in declared.file.provides} if declared else {}
    for name, service in found.items():
        if service is None:
            continue
        file = services.path_of(name)
        service_rules.check_names(file, service, flaws)
        if declared and declared.file.fleet is not UNKNOWN_SETTINGS:
            routes.check(file, name, service, declared.file.fleet, claims, flaws)
        service_rules.check_writers(file, service, flaws)
        service_rules.check_stops(file, service, flaws)
        secrets.check_service(file, service, sealed, flaws)
        service_rules.check_volumes(file, service, declared.storage_names if declared else None, flaws)
        service_rules.check_nesting(file, name, service, flaws)
        if declared:
            service_rules.check_nodes(file, service, nodes, declared.node_names, flaws)
            service_rules.check_providers(file, name, service, provided, flaws)
        checked[name] = health.complete(file, service, flaws)
    return checked


def _fleet(
    declared: Declared, checked: dict[str, Service], bound: dict[str, Policy], sealed: dict[str, bytes]
) -> Fleet:
    """Everything sorted by name, so that the order of files and tables makes no difference (I-22)."""
    file = declared.file
    return Fleet(
        settings=file.fleet,
        thresholds=file.trust,
        operators=tuple(sorted(file.operators, key=lambda operator: operator.name)),
        backups=file.backups,
        timeouts=file.timeouts,
        nodes={node.name: node for node in sorted(file.nodes, key=lambda node: node.name)},
        services=checked,
        storage={target.name: target for target in sorted(file.storage, key=lambda target: target.name)},
        policies=dict(sorted(bound.items())),
        alerts={target.name: target for target in sorted(file.alerts, key=lambda target: target.name)},
        secrets=dict(sorted(sealed.items())),
        acme=file.acme,
        dns=file.dns,
        overlay=file.overlay,
        provides={one.name: one for one in sorted(file.provides, key=lambda one: one.name)},
    )


def missing(root: tuple[Entry, ...], name: str) -> Invalid:
    visible = [entry.path for entry in root if not layout.is_hidden(entry.path)]
    if not visible:
        return Invalid(f"the fleet directory {_shown(name)} is empty", remedy=_init(name), code="fleet_empty")
    question = spelling.question(FLEET_FILE, visible)
    return Invalid(
        f"there is no {FLEET_FILE} in {_shown(name)}" + (f"; {question}" if question else ""),
        remedy=f"give your fleet directory with --fleet DIR; to create a new fleet here: {_init(name)}",
        code="fleet_missing",
    )


def _blank(name: str) -> Invalid:
    from shlex import quote

    return Invalid(
        f"{FLEET_FILE} in {_shown(name)} is empty",
        remedy=f"rm {quote(name.rstrip('/') + '/' + FLEET_FILE)} && {_init(name)}",
        code="fleet_empty",
    )


def _init(name: str) -> str:
    from shlex import quote

    return f"holdfast init {quote(name)}"


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)
