"""What this node must run: the manifest in force with its contents read, as guests, frozen for a pass (T-05)."""

from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import Struct

from holdfast.agent.keeper import Revision
from holdfast.errors import Corrupt, HoldfastError
from holdfast.model.container import Guest
from holdfast.model.deployment import deployment_of
from holdfast.model.fleet import Node, Service, Settings
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Entry
from holdfast.planning.edges import proxy_of
from holdfast.reconcile import wanted

_service = msgspec.json.Decoder(Service).decode


class Desired(Struct, frozen=True):
    """`complete` is False while a content is missing: then nothing is taken away (C-05)."""

    revision: int
    manifest: NodeManifest
    node: Node
    settings: Settings
    guests: dict[str, Guest]  # by name of the service
    standby: frozenset[str]  # of these, the ones that run here for another node
    complete: bool = True
    trouble: HoldfastError | None = None
    awaited: Mapping[str, Guest] = {}  # that wait for their data


def desired(
    revision: Revision,
    content: Callable[[str], bytes | None],
    fleet: str,
    data_dir: str,
    standby: Collection[str],
) -> Desired:
    """`content` reads a document of the revision by its digest."""
    manifest = revision.manifest
    here = {**manifest.services, **{a: manifest.standby[a] for a in standby if a in manifest.standby}}
    here |= revision.awaited
    exposed = proxy_of(revision.node) == "none"
    guests: dict[str, Guest] = {}
    awaited: dict[str, Guest] = {}
    trouble: HoldfastError | None = None
    for address, entry in sorted(here.items()):
        name = address.partition(".")[2]
        try:
            service = _read(content, address, entry)
            made = wanted.guest(address, entry, service, fleet, data_dir, deployment_of(entry), exposed)
            (awaited if address in revision.awaited else guests)[name] = made
        except HoldfastError as found:
            trouble = found
    borrowed = frozenset(a.partition(".")[2] for a in standby if a in manifest.standby)
    settings = revision.document.settings
    is_whole = trouble is None
    return Desired(revision.number, manifest, revision.node, settings, guests, borrowed, is_whole, trouble, awaited)


def _read(content: Callable[[str], bytes | None], address: str, entry: Entry) -> Service:
    found = content(entry.digest)
    try:
        if found is None:
            raise msgspec.DecodeError("it is not there")
        return _service(found)
    except msgspec.DecodeError as trouble:
        raise Corrupt(
            f"the content of {address} cannot be read from this node's own state: {trouble}",
            remedy="holdfast agent check; the next apply that changes it brings it again",
            code="content_missing",
        ) from trouble
