"""What must hold of the doors behind the gate: containers (rollouts, orphans, schedules), mounts, permissions, and what
signatures of grade destroy approved. No complaint, or they are too weak."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.agent.acceptance.manifest import Followed
from holdfast.errors import NotPermitted
from holdfast.gate.acts import Act
from holdfast.gate.authority import Authority
from holdfast.gate.containers import MADE, RUN
from holdfast.model import canonical
from holdfast.model.container import LABEL_SERVICE, Container
from holdfast.model.fleet import Component, Node, Service, Volume
from holdfast.model.manifest import NodeManifest
from holdfast.model.proven_address import ProvenAddress, owns
from holdfast.model.revision import Entry
from holdfast.model.trust import Trust
from holdfast.ports.allowed import Allowed
from holdfast.ports.backup_target import Mountable
from holdfast.ports.storage import DataDirectory
from tests.fleets.build import operator_signer

NODE = "w1"
WEB, DB, HERE = (Authority("apply", None, 7, address) for address in ("service.web", "service.db", "node.w1"))
DESTROYS = Authority("destroy", None, 7, "node.w1")


def container(name: str, service: str = "web") -> Container:
    return Container(f"id of {name}", name, "running", True, {LABEL_SERVICE: service} if service else {})


def touching(gate: Any) -> Iterator[str]:
    """Rollouts, orphans and schedules: a container is touched by its own service, a foreign one by the node alone."""
    journal = MemoryJournal()
    journal.note_made(MADE + "ours", "o1", False)
    journal.note_made(RUN + "run", "schedule", False)
    for name, label, service, act, authority, permits in [
        ("ours", "web", "", Act.STOP, WEB, "STOP"),
        ("ours", "web", "", Act.STOP, DB, None),
        ("ours", "web", "db", Act.STOP, DB, None),  # its label counts, not what is said of it
        ("ours", "web", "", Act.RETIRE, WEB, "RETIRE"),
        ("run", "", "web", Act.START, WEB, "START"),
        ("run", "", "db", Act.START, WEB, None),
        ("stranger", "web", "", Act.STOP, WEB, None),  # it carries the labels of the service
        ("stranger", "web", "", Act.START, WEB, None),
        ("stranger", "web", "", Act.EXEC, HERE, None),
        ("stranger", "web", "", Act.RETIRE, HERE, None),
        ("stranger", "web", "", Act.RETIRE, DESTROYS, "RETIRE"),
        ("stranger", "web", "", Act.START, DESTROYS, "RETIRE"),  # which starts nothing
    ]:
        answer = gate.may_touch(journal, act, container(name, label), service, NODE, authority)
        wanted = Allowed(permits, f"id of {name}") if permits else None
        if (answer if isinstance(answer, Allowed) else None) != wanted:
            yield f"{act.name} of {name} for {service or label} by {authority.address}: {answer}"
    for service, permitted in (("web", True), ("db", False)):
        answer = gate.may_make(Act.CREATE, "new", service, NODE, WEB)
        if (answer == Allowed("CREATE", "new")) is not permitted:
            yield f"the signatures about service.web create a container of {service}: {answer}"


def mounting(gate: Any) -> Iterator[str]:
    """Storage: own volumes, empty directories, data that was made by hand, paths of the host."""
    proof = ProvenAddress(7, "service.web", frozenset({"/etc/hosts", "/srv/db/book"}))
    full, empty = (DataDirectory("web/book", "/data/web/book", n, n, n) for n in (1, 0))
    cases = ((True, None, True), (True, full, True), (False, None, True), (False, empty, True), (False, full, False))
    for made, found, permitted in cases:
        answer = gate.may_mount(proof, "/data/web/book", made, found, NODE)
        if (answer == Allowed("MOUNT", "/data/web/book")) is not permitted:
            yield f"made {made}, found {found}: {answer}"
    for source, permitted in (("/etc/hosts", True), ("/data/db/book", True), ("/srv/db/book", False), ("/etc", False)):
        answer = gate.may_reach(proof, source, "/data", NODE)
        if (answer == Allowed("REACH_HOST", source)) is not permitted:
            yield f"{source}: {answer}"
    approved = ProvenAddress(7, "service.web", frozenset({owns("book", "5:5")}))
    for owned, service, found, asked, permitted in (
        (proof, "web", None, "", True),
        (proof, "web", empty, "", True),
        (proof, "web", empty, owns("book", "5:5"), True),
        (proof, "web", full, "", False),
        (proof, "web", full, owns("book", "5:5"), False),
        (approved, "web", full, owns("book", "5:5"), True),
        (approved, "web", full, owns("book", "6:6"), False),
        (approved, "web", full, owns("page", "5:5"), False),
        (approved, "web", full, "", False),
        (approved, "db", empty, "", False),
    ):
        answer = gate.may_write(owned, service, "/data/web/book", found, NODE, asked)
        if (answer == Allowed("OVERWRITE_DATA", "/data/web/book")) is not permitted:
            yield f"write {asked!r} of {service} over {found}: {answer}"
    if isinstance(gate.may_reach(ProvenAddress(7, "service.web"), "/etc/hosts", "/data", NODE), Allowed):
        yield "a path that no signature approved is reached"
    for address, permitted in (("storage.stick", True), ("storage.other", False), ("service.stick", False)):
        answer = gate.may_mount_storage("stick", ProvenAddress(7, address), "1234-ABCD", NODE)
        if (answer == Mountable("stick", "1234-ABCD")) is not permitted:
            yield f"a proof about {address} mounts stick: {answer}"


def permitting(port: Any) -> Iterator[str]:
    for act, thing, permitted in (("START", "a", True), ("STOP", "a", False), ("START", "b", False)):
        try:
            port.check(Allowed(act, thing), frozenset({"START"}), "a")
            found = True
        except NotPermitted:
            found = False
        if found is not permitted:
            yield f"{act} of {thing} counts as a start of a: {found}"


# ---- approvals

ANN, BOB = (operator_signer(name, grade) for name, grade in (("ann", "destroy"), ("bob", "apply")))  # type: ignore[arg-type]
TRUST = Trust((ANN[0], BOB[0]))
CONTENTS: dict[str, bytes] = {}


def put(value: object) -> Entry:
    content = canonical.encode(value)
    CONTENTS[canonical.digest(content)] = content
    return Entry(canonical.digest(content), node=NODE)


def manifest(*volumes: str | Volume, orphans: Any = "report", foreign: bool = False) -> NodeManifest:
    web = put(Service((Component("main", "img", volumes=volumes),)))
    own = put(Node(NODE, ("worker",), orphans=orphans, orphans_foreign=foreign))
    return NodeManifest("f" * 64, NODE, "s" * 64, own, services={"service.web": web})


def approving(module: Any) -> Iterator[str]:
    """An approval needs signatures of grade destroy on each revision that may have brought it; it stays meanwhile."""
    plain, etc, both = manifest(), manifest("/etc:/x"), manifest("/etc:/x", "/root:/y")
    ann, bob = (((one[0].key,), TRUST) for one in (ANN, BOB))
    kept = {"service.web": ("/etc",)}
    book = Volume("book", "/data", "none")
    five, six = (msgspec.structs.replace(book, owner=owner) for owner in ("5:5", "6:6"))
    five_approved = {"service.web": (owns("book", "5:5"),)}
    both_approved = {"service.web": (owns("book", "5:5"), owns("book", "6:6"))}
    for before, after, signed, expected in [
        (Followed(manifest(book), approved={}), manifest(five), [bob], {}),
        (Followed(manifest(book), approved={}), manifest(five), [ann], five_approved),
        (Followed(plain, approved={}), manifest(book), [ann], {}),
        # for the way back: a deployment with the owner 6:6 may fail, and 5:5 was set when the volume was made
        (Followed(manifest(five), approved={}), manifest(six), [ann], both_approved),
        (Followed(manifest(five), approved={}), manifest(six), [bob], {}),
        (Followed(manifest(five, "/etc:/x"), approved={}), manifest(six), [ann], both_approved),
        (Followed(plain), etc, [ann], kept),
        (Followed(plain), etc, [bob], {}),
        (Followed(plain), etc, [ann, bob], {}),
        (Followed(plain, approved={}), etc, [bob], {}),
        (Followed(etc), etc, [bob], kept),  # taken over from a release that noted nothing
        (Followed(etc), both, [bob], kept),
        (Followed(etc, approved={}), both, [bob], {}),
        (Followed(etc, approved=kept), both, [ann], {"service.web": ("/etc", "/root")}),
        (Followed(etc, approved=kept), plain, [bob], kept),  # for the way back
        (Followed(etc, approved={}), etc, [ann], {}),  # this revision does not touch it
        (Followed(), etc, [ann], kept),
        (Followed(plain), manifest(orphans="stop"), [ann], {"node.w1": ("orphans=stop",)}),
        (Followed(plain), manifest(orphans="stop"), [bob], {}),
        (Followed(plain), manifest(orphans="remove"), [ann], {"node.w1": ("orphans=remove", "orphans=stop")}),
        (
            Followed(plain),
            manifest(orphans="stop", foreign=True),
            [ann],
            {"node.w1": ("orphans=stop", "orphans=stop foreign")},
        ),
    ]:
        found = module.noted(before, Followed(after), signed, CONTENTS)
        if found.approved != expected or msgspec.structs.replace(found, approved=None) != Followed(after):
            yield f"{before.approved} then {len(signed)} signatures: {found.approved} instead of {expected}"
