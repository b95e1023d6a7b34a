"""Check needs of services and what nodes provide, by the rules of planning. Pure."""

from collections.abc import Collection, Mapping, Sequence

from holdfast.declared import spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.words import shown
from holdfast.model.fleet import Node, Service
from holdfast.model.need import Provides
from holdfast.planning import needs, providers
from holdfast.planning.complaint import Complaint

OF_NEEDS: Mapping[str, str] = {
    "name": "the name of the need, in this service",
    "type": "`postgres`: a database with a login; another name: what the handler program of a [[provides]] of this "
    "type makes. `oidc`, `certificate`, `s3` and `git` are not built yet",
    "provider": "the node that provides it; if left out, the only one of this type that lists the service",
    "params": "parameters for the handler of the type; `postgres` has none",
    "deliver": "where its containers find the answer",
    "on_change": "what is done when the values change: `restart` or `nothing`; `signal:NAME` is not built yet",
    "required": "whether the service starts only with the answer; without it, it starts at once and the answer comes "
    "later",
}
OF_DELIVERY: Mapping[str, str] = {
    "path": "the directory in the container with one file for each field, in memory; `/run/needs/NAME` if left out",
    "components": "the components that get it; every one if left out",
}
OF_PROVIDERS: Mapping[str, str] = {
    "node": "the node that provides it, with the role `provider`",
    "type": "`postgres`, or a name of your own with a handler program; one of each type for a node",
    "services": "the services that may need it",
    "params": "`postgres`: `address` (`HOST:PORT`), `secret` (the password of the administrator, sealed for "
    "`provides.NODE.postgres`), `user` and `database` (`postgres` if left out: where and as whom it connects), `tls` "
    "(`on` if left out, or `off`). Any other type: `exec` (the program on the node), `sha256` (of it), `fields` (names "
    "that its answers have, with spaces between them), `user` (who runs it; not root), and `secret`, if it needs one",
    "grace": "how long a credential stays that is not declared and, as its node confirms, not used any more",
    "ttl": "how long a credential is valid; it is renewed in time. Without it, it does not end",
}
_RESOURCE = "provides"


def check(file: str, service: Service, flaws: Flaws) -> None:
    for one in needs.complaints(service):
        flaws.add_checked(file, one.at, one.what, one.remedy)


def check_providers(file: str, name: str, service: Service, provided: Mapping[str, Provides], flaws: Flaws) -> None:
    """`provided`: by NODE.TYPE. A need is not blamed for a [[provides]] that is wrong."""
    if flaws.touch(FLEET_FILE, (_RESOURCE,)):
        return
    for at, need in enumerate(service.needs):
        if flaws.touch(file, ("needs", at)):
            continue
        found = needs.choice(name, need, provided)
        if isinstance(found, Complaint):
            flaws.add_checked(file, ("needs", at, *found.at), found.what, found.remedy)


def check_provided(
    provided: Sequence[Provides], nodes: Mapping[str, Node], known: Collection[str], flaws: Flaws
) -> None:
    """`known`: names of nodes, including refused ones."""
    seen: set[str] = set()
    for at, one in enumerate(provided):
        where = (_RESOURCE, at)
        if flaws.touch(FLEET_FILE, where):
            continue
        for wrong in providers.complaints(one):
            flaws.add_checked(FLEET_FILE, (*where, *wrong.at), wrong.what, wrong.remedy)
        if one.name in seen:
            what = f"{one.node} provides {one.type} already"
            flaws.add_checked(FLEET_FILE, (*where, "type"), what, "remove one of the two tables, or name another node")
        seen.add(one.name)
        if one.node not in known:
            remedy = spelling.question(one.node, known) or "add it to [[nodes]]"
            flaws.add_checked(FLEET_FILE, (*where, "node"), f"there is no node {shown(one.node)}", remedy)
        elif one.node in nodes and "provider" not in nodes[one.node].roles:
            what = f'node "{one.node}" has not the role provider'
            flaws.add_checked(FLEET_FILE, (*where, "node"), what, "add it to its roles, or name another node")
