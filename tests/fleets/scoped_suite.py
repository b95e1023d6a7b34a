"""Ways of a key of grade apply with the scope of one service to reach what is not theirs, and rules to weaken."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.adapters.signer.memory import MemorySigner
from holdfast.agent.acceptance.manifest import entries
from holdfast.cli.fleet import signing
from holdfast.model import order as orders
from holdfast.model import trust
from holdfast.model.applied import Applied
from holdfast.model.fleet import (
    Acme,
    AlertTarget,
    Component,
    Dns,
    Fleet,
    Grade,
    Node,
    Operator,
    Route,
    Service,
    Storage,
    Thresholds,
    Timeouts,
    Volume,
)
from holdfast.model.manifest import NodeManifest
from holdfast.model.plan import Plan
from holdfast.model.revision import decode_table
from holdfast.planning import grades
from holdfast.planning.bounds import Bounds
from holdfast.planning.drain import plan_drain
from holdfast.planning.kinds.kind import Step
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.rollback import plan_rollback
from holdfast.trust import approval, endorsement
from tests.fleets.build import ALICE, ALICE_SIGNER, digest_pinned, edge_fleet, joined, operator_signer, public_service

CI, CI_SIGNER = operator_signer("ci", "apply", ("service.web",))
TIED, TIED_SIGNER = operator_signer("tied", "apply", ("service.web", "node:w1"))
NAMED, NAMED_SIGNER = operator_signer("named", "apply", ("service.web", "name:*.eu.example.test"))
DBA, DBA_SIGNER = operator_signer("dba", "apply", ("service.db",))
OPERATORS = (ALICE, CI, TIED, NAMED, DBA)

DB = Service((Component("main", digest_pinned("db"), volumes=(Volume("data", "/data", "backup"),)),), node="w1")


SHOP = replace(public_service("shop"), node="w2")


def _base() -> Fleet:
    services = {"web": replace(public_service("web"), node="w1"), "shop": SHOP, "db": DB}
    fleet = edge_fleet(services, operators=OPERATORS)
    more = {"hub1": Node("hub1", ("hub",), address="100.64.0.8"), "p1": Node("p1", ("provider",), address="100.64.0.9")}
    domains = ("example.test", "eu.example.test")
    return replace(
        fleet,
        settings=replace(fleet.settings, public_domains=domains),
        nodes=fleet.nodes | more,
        alerts={"ops": AlertTarget("ops", webhook="https://ops.test/hook")},
    )


BASE = _base()
BOTH = replace(BASE, thresholds=Thresholds(apply=2))
Make = Callable[[Applied], Plan]


class Attack(Struct, frozen=True):
    """`weak`: the rules that stop it, each alone. `where`: nodes on which it would take effect, besides the ledger."""

    name: str
    steps: tuple[Make, ...]  # the last one is the attack; those before it are the signer's own business
    weak: tuple[str, ...]
    where: tuple[str, ...] = ()
    signers: tuple[MemorySigner, ...] = (CI_SIGNER,)
    base: Fleet = BASE


def declared(change: Callable[[Fleet], Fleet]) -> Make:
    return lambda applied: plan(change(_declared(applied)), applied)


def _declared(applied: Applied) -> Fleet:
    """The directory as it was applied: the base, without services that were removed."""
    base = BOTH if applied.trust.thresholds.apply == 2 else BASE
    return replace(base, services={n: s for n, s in base.services.items() if f"service.{n}" in applied.table.entries})


def founded(base: Fleet) -> Plan:
    return plan(base, None, Inputs(identities=joined(base)))


def _web(**changed: Any) -> Make:
    def change(fleet: Fleet) -> Fleet:
        web = replace(BASE.services["web"], **changed)
        return replace(fleet, services=fleet.services | {"web": web})

    return declared(change)


def _named(*hostnames: str, **route: Any) -> Make:
    routes = tuple(Route(f"r{at}", 8080 + at, hostname=h, public=True, **route) for at, h in enumerate(hostnames))
    return _web(components=(Component("main", digest_pinned("web"), routes=routes),))


def _internal(hostname: str) -> Make:
    return _web(components=(Component("main", digest_pinned("web"), routes=(Route("http", 8080, hostname=hostname),)),))


def _node(name: str, **changed: Any) -> Make:
    return declared(lambda fleet: replace(fleet, nodes=fleet.nodes | {name: replace(fleet.nodes[name], **changed)}))


def _fleet(**changed: Any) -> Make:
    return declared(lambda fleet: replace(fleet, **changed))


def _service(name: str, service: Service) -> Make:
    return declared(lambda fleet: replace(fleet, services=fleet.services | {name: service}))


def _without(name: str) -> Make:
    return declared(lambda fleet: replace(fleet, services={n: s for n, s in fleet.services.items() if n != name}))


def _shop_gives_way(fleet: Fleet) -> Fleet:
    """shop loses its public name in the revision in which web takes it."""
    silent = Service((Component("main", digest_pinned("shop"), routes=(Route("http", 8080),)),))
    return replace(fleet, services=fleet.services | {"shop": silent, "web": public_service("web", "shop.example.test")})


def _rolled_back(applied: Applied) -> Plan:
    """To the first revision, while another service has got a new image."""
    first = founded(BASE).candidate
    assert first is not None
    return plan_rollback(decode_table(first.table), applied)


NEW_SHOP = replace(public_service("shop2", "shop.example.test"), node="w2")
EVIL_DB = replace(DB, components=(replace(DB.components[0], image=digest_pinned("evil")),))
LOOT = Component("main", digest_pinned("web"), volumes=("/srv/db/data:/loot",))
EAR = AlertTarget("x", apprise="json://10.0.0.1/")
TWO = (CI_SIGNER, DBA_SIGNER)
KEY = ("address", "key")  # the rules that stop a change of a fleet-wide key
W1, E1 = ("w1",), ("w1", "e1")
HOSTED = {"node": "hub1"}
EVERYWHERE = ("w1", "w2", "e1", "hub1")
ATTACKS: tuple[Attack, ...] = (
    # names
    Attack("the apex of a domain", (_named("example.test"),), ("name",), E1),
    Attack("www", (_named("www.example.test"),), ("name",), E1),
    Attack("login, still free", (_named("login.example.test"),), ("name",), E1),
    Attack("the name of the hub's machine", (_named("hub1.example.test"),), ("name",), E1),
    Attack("the later public name of another service", (_named("db.example.test"),), ("name",), E1),
    Attack("the apex of an inner domain", (_named("eu.example.test"),), ("name",), E1),
    Attack("a name that ends like its own", (_named("xweb.example.test"),), ("name",), E1),
    Attack("its own name below another's", (_named("web.login.example.test"),), ("name",), E1),
    Attack("an IDN look-alike of its own name", (_named("xn--wb-eka.example.test"),), ("name",), E1),
    Attack("a second name beside its own", (_named("web.example.test", "mail.example.test"),), ("name",), E1),
    Attack("a name passed through by SNI", (_named("vpn.example.test", mode="l4"),), ("name",), E1),
    Attack("a name out of the signer's own pattern", (_named("eu.example.test"),), ("name",), E1, (NAMED_SIGNER,)),
    Attack("an internal name for billing", (_internal("billing.svc.test"),), ("name",), W1),
    Attack("the internal name of a later service", (_internal("future.future.svc.test"),), ("name",), W1),
    Attack("an internal name below another service", (_internal("replica.db.svc.test"),), ("name",), W1),
    Attack("the apex of the internal zone's sibling", (_internal("wpad.svc.test"),), ("name",), W1),
    # places
    Attack("the hub's machine by a pin", (_web(node="hub1"),), ("place",), ("hub1",)),
    Attack("the hub's machine by its tier", (_web(node=UNSET, tier="core"),), ("place",), ("hub1",)),
    Attack("a provider's machine", (_web(node="p1"),), ("place",), ("p1",)),
    Attack("the hub's machine as failover", (_web(failover=("hub1",)),), ("place", "grade"), ("hub1",)),
    Attack("undeploy, then the hub's machine", (_without("web"), _web(node="hub1")), ("place",), ("hub1",)),
    Attack("undeploy, then another name", (_without("web"), _named("www.example.test")), ("name",), ("e1",)),
    Attack("another worker than the scope's", (_web(node="w2"),), ("place",), ("w2",), (TIED_SIGNER,)),
    # keys of the whole fleet
    Attack("a new alert target", (_fleet(alerts=BASE.alerts | {"x": EAR}),), KEY),
    Attack("no alert target", (_fleet(alerts={}),), KEY),
    Attack("another authority for certificates", (_fleet(acme=Acme("https://evil.test/d", (), True)),), KEY, E1),
    Attack("a timeout that breaks every deploy", (_fleet(timeouts=Timeouts(deploy="1s")),), KEY, W1),
    Attack("no name server", (_fleet(dns=Dns("none")),), KEY, W1),
    Attack("a node that only observes", (_node("w2", reconcile="observe"),), KEY, ("w2",)),
    Attack("a node that stops what it does not know", (_node("w2", orphans="stop"),), KEY, ("w2",)),
    Attack("a storage target", (_fleet(storage={"nas": Storage("nas", "nfs", "evil:/x")}),), KEY, W1),
    # others' resources
    Attack("another service's image", (_service("db", EVIL_DB),), ("address",), W1),
    Attack("another service's stop", (_service("shop", replace(NEW_SHOP, active=False)),), ("address",), ("w2",)),
    Attack("another service's removal", (_without("db"),), ("address",), W1),
    Attack("another service's public name", (declared(_shop_gives_way),), ("address", "name"), E1),
    Attack("another service's data by its host path", (_web(components=(LOOT,)),), ("grade",), W1),
    Attack("a service of another name", (_service("web2", public_service("web2")),), ("address",), EVERYWHERE),
    Attack("a node drained", (lambda applied: plan_drain("w2", applied, {}),), ("address",), ("w2",)),
    Attack("a rollback of all services", (_service("shop", NEW_SHOP), _rolled_back), ("address",), ("w2",)),
    Attack("a wider scope of its own", (_fleet(operators=(ALICE, replace(CI, scope=()))),), ("address", "grade")),
    # two signatures
    Attack("two scoped keys for a third service", (_service("shop", NEW_SHOP),), ("address",), ("w2",), TWO),
    Attack("one of two for a name", (_named("www.example.test"),), ("name",), E1, (CI_SIGNER, ALICE_SIGNER), BOTH),
)


# ---- rules weakened on purpose


@contextmanager
def weakened(*rules: str) -> Iterator[None]:
    """`address`, `name`, `place`: a scope does not look at these; `key`: no fleet-wide key needs destroy by the newest
    rules; `grade`: every operator may sign for every grade."""
    with pytest.MonkeyPatch.context() as patched:
        dropped = tuple(
            kind for rule, kinds in {"name": ("name:",), "place": ("node:", "worker:")}.items() if rule in rules
            for kind in kinds
        )  # fmt: skip

        def outside_scope(operator: Operator, addresses: Iterable[str]) -> str | None:
            kept = [a for a in addresses if not a.startswith(dropped or ("-",))]
            return trust.outside_scope(operator, [a for a in kept if ":" in a or "address" not in rules])

        for module in (approval, signing):
            patched.setattr(module, "outside_scope", outside_scope)
            if "grade" in rules:
                patched.setattr(module, "may_sign", lambda trust, operator, grade: True)
        if "place" in rules:
            patched.setattr(Bounds, "demands", lambda self, address: iter(()))
        if "key" in rules:
            real = grades.demands

            def demands(step: Step) -> Any:
                return real(replace(step, rules="first"))

            patched.setattr(grades, "demands", demands)
        yield


# ---- the judges


def signs(planned: Plan, applied: Applied, signer: MemorySigner) -> None:
    """What the command line asks before it signs; raises SignatureRequired."""
    box: Any = SimpleNamespace(keys=SimpleNamespace(signer=lambda path, wanted: signer))
    signing.refuse_if_hopeless(planned, applied, Namespace(key=None, fleet=".", hub=None), box)


def effects(before: NodeManifest, now: NodeManifest) -> set[str]:
    """What a node follows otherwise than before; that web itself goes or moves is its signer's business."""
    pairs = (
        ("", entries(before), entries(now)),
        ("edge.", before.edge, now.edge),
        ("name.", {s: n.names for s, n in before.names.items()}, {s: n.names for s, n in now.names.items()}),
        ("issuer.", before.issuers, now.issuers),
    )
    found = set()
    for kind, was, becomes in pairs:
        one: dict[str, Any] = dict(was)
        other: dict[str, Any] = dict(becomes)
        found |= {f"{kind}{key}" for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
    return {one for one in found if not _own(one, before, now)}


def _own(one: str, before: NodeManifest, now: NodeManifest) -> bool:
    """That web goes, moves, or is reached otherwise by its own name."""
    if one == "service.web":
        return one not in entries(now)
    if one == "name.web":
        return all(name.endswith(".web.svc.test") for name in set(_names(now)) - set(_names(before)))
    host = one.removeprefix("edge.")
    return host == "web.example.test" and (host not in now.edge or now.edge[host].service == "web")


def _names(manifest: NodeManifest) -> tuple[str, ...]:
    return manifest.names["web"].names if "web" in manifest.names else ()


# ---- orders of the same key

ORDERS: tuple[tuple[str, str, Grade], ...] = tuple(
    (action, f"{rule.target}.{'w1' if rule.target == 'node' else 'db'}", rule.grade)
    for action, rule in orders.ACTIONS.items()
    if not rule.hub_may
)


def endorses(action: str, target: str, grade: Grade) -> None:
    """As hub and agent ask (trust/orders.py); raises SignatureRequired."""
    from holdfast.trust.orders import scope_address

    message = f"{action} {target}".encode()
    armoured = CI_SIGNER.sign(message, orders.NAMESPACE)
    found = trust.of(OPERATORS, Thresholds())
    address = (scope_address(target),)
    endorsement.signers(message, (armoured,), orders.NAMESPACE, grade, address, found, "this order", "sign it")
