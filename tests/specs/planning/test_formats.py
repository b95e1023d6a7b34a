"""What older agents cannot read is not sent to them (design §9): one table, complete against the signed documents."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import inspect
from msgspec.structs import replace

from holdfast.errors import Conflict
from holdfast.model.applied import Applied
from holdfast.model.drill import Drill
from holdfast.model.fleet import (
    AlertTarget,
    Backups,
    Component,
    Fleet,
    FleetDocument,
    Node,
    Retain,
    Route,
    Service,
    Snapshot,
    Storage,
    Thresholds,
    Volume,
)
from holdfast.model.manifest import NodeManifest
from holdfast.model.need import Deliver, Need, Pair, Provides, Want
from holdfast.model.revision import Header
from holdfast.model.trust import Trust
from holdfast.planning import formats
from holdfast.planning.drain import plan_drain
from holdfast.planning.kinds.kind import Section
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.rollback import plan_rollback
from holdfast.planning.secrets import Uses
from tests.fleets.build import ALICE, commit, digest_pinned, edge_fleet, mailbox, operator_signer, small_fleet
from tests.fleets.needing import DB, NEED
from tests.fleets.sealing import sealed_to

# Fields of the documents that agents of format 1 read, as they were then. A line is added here only for a field that
# those agents ignore without harm.
FEATURES: tuple[formats.Feature[Any], ...] = (
    *formats.OF_SERVICES,
    *formats.OF_ALERTS,
    *formats.OF_TRUST,
    *formats.OF_STORAGE,
    *formats.OF_FLEET,
    *formats.OF_PROVIDES,
)
KNOWN = set(Path(__file__).with_name("fields_of_format_1.txt").read_text().split())
# The same feature in the documents that planning derives from those of the operators.
OF_QUIET = ("timezone", "quiet_except")
DERIVED: dict[str, str] = {
    f"AlertTarget.{key}": "AlertTarget.quiet" if key in OF_QUIET else "AlertTarget.nodes"
    for key in AlertTarget.__struct_fields__
    if key not in ("nodes", "quiet")
}
DERIVED |= {f"FleetDocument.backups.retain.{key}": formats.OF_FLEET[0].key for key in ("daily", "weekly", "monthly")}
DERIVED["FleetDocument.backups.timezone"] = "FleetDocument.backups.cron"
NEEDS = {f"Service.needs.{key}" for key in Need.__struct_fields__}
NEEDS |= {f"Service.needs.deliver.{key}" for key in Deliver.__struct_fields__}
NEEDS |= {f"NodeManifest.{section}.wants" for section in get_args(Section)}
NEEDS |= {f"NodeManifest.{section}.wants.{key}" for section in get_args(Section) for key in Want.__struct_fields__}
NEEDS |= {"NodeManifest.pairs", *(f"NodeManifest.pairs.{key}" for key in Pair.__struct_fields__)}
DERIVED |= dict.fromkeys(NEEDS, "Service.needs")
DERIVED |= {f"Provides.{key}": "Provides.type" for key in Provides.__struct_fields__ if key != "type"}
DERIVED |= dict.fromkeys(("Service.drill.cmd", "Service.drill.timeout"), "Service.drill")

SEALED = sealed_to("w1", "w2")
SCOPED, _ = operator_signer("carol", "apply", ("service.web", "node:w1"))


def fields(kind: type) -> set[str]:
    found: set[str] = set()

    def walk(one: Any, at: str, above: tuple[type, ...]) -> None:
        if isinstance(one, inspect.StructType) and one.cls not in above:
            for field in one.fields:
                found.add(f"{at}.{field.name}")
                walk(field.type, f"{at}.{field.name}", (*above, one.cls))
        for inner in ("item_type", "value_type", "type"):
            if hasattr(one, inner):
                walk(getattr(one, inner), at, above)
        for inner in (*getattr(one, "types", ()), *getattr(one, "item_types", ())):
            walk(inner, at, above)

    walk(inspect.type_info(kind), kind.__name__, ())
    return found


def test_every_field_that_older_agents_do_not_know_has_a_format() -> None:
    """An agent refuses unknown fields of a signed document, and then follows no revision at all."""
    kinds = (Service, Node, FleetDocument, Trust, AlertTarget, NodeManifest, Header, Provides)
    now = {key for kind in kinds for key in fields(kind)} | {"Storage.location"}  # no older agent uses any
    features = {feature.key for feature in FEATURES}
    moves = {key for key in now if re.search(r"\.(move|handover|peers|fenced)\b", key)}  # require_move asks for them
    assert now - KNOWN - features - DERIVED.keys() - moves == set(), "add a row to planning/formats.py"
    assert features <= now and set(DERIVED.values()) <= features
    assert len(KNOWN) > 300 and now >= KNOWN


def service(volume: str = "auto", headers: tuple[str, ...] = (), node: str = "w1") -> Service:
    volumes = (Volume("book", "/data", "none", checkpoint=volume),)  # type: ignore[arg-type]
    routes = (Route("http", 8080, pass_headers=headers),)
    return Service((Component("main", digest_pinned("web:1"), volumes=volumes, routes=routes),), node=node)


def fleet(**given: Any) -> Fleet:
    return small_fleet({"web": service(**given)}, nodes=("w1", "w2"), operators=(ALICE,))


def own(**more: Any) -> Fleet:
    found = service()
    return replace(fleet(), services={"web": replace(found, components=(replace(found.components[0], **more),))})


def drilling() -> Fleet:
    return replace(fleet(), services={"web": replace(service(), drill=Drill(("check",)))})


def dumping(**more: Any) -> Fleet:
    return replace(fleet(), services={"web": replace(service(), snapshot=Snapshot(**{"method": "exec: dump", **more}))})


def touching() -> Fleet:
    return replace(fleet(), thresholds=Thresholds(destroy_requires="touch"))


def telling(after: str = "5m", nodes: tuple[str, ...] = ("w2",), **more: Any) -> Fleet:
    target = AlertTarget("phone", secret="url", nodes=nodes, after=after, **more)
    return replace(fleet(), alerts={"phone": target}, secrets={"url": SEALED})


def storing(nodes: tuple[str, ...]) -> Fleet:
    return replace(fleet(), storage={"box": Storage("box", "local-dir", "box-1", location="/srv/box", nodes=nodes)})


def wishing() -> Fleet:
    """service.web on w1 needs what w1 provides; test_needs.py has pairs of two nodes."""
    base = replace(fleet(), services={"web": replace(service(), needs=(NEED,))})
    nodes = {**base.nodes, "w1": Node("w1", ("worker", "provider"))}
    return replace(base, nodes=nodes, provides={"w1.postgres": replace(DB, node="w1")}, secrets={"admin": SEALED})


def scoped() -> Fleet:
    return replace(fleet(), operators=(ALICE, SCOPED))


USES: dict[str, tuple[Callable[[], Fleet], tuple[str, ...]]] = {
    "Service.components.volumes.checkpoint": (lambda: fleet(volume="off"), ("w1",)),
    "Service.components.routes.pass_headers": (lambda: fleet(headers=("remote-user",)), ("w1",)),
    "Service.components.user": (lambda: own(user="1000"), ("w1",)),
    "Service.components.settle": (lambda: own(settle="9s", routes=()), ("w1",)),
    "Service.components.stop_timeout": (lambda: own(stop_timeout="9s"), ("w1",)),
    "Service.drill": (drilling, ("w1",)),
    "Service.components.scratch": (lambda: own(scratch=("/tmp",)), ("w1",)),
    "Service.components.volumes.owner": (lambda: own(volumes=(Volume("book", "/data", "none", owner="5:5"),)), ("w1",)),
    "Service.snapshot.restore": (lambda: dumping(restore="load"), ("w1",)),
    "Service.snapshot.method": (lambda: dumping(method="cli"), ("w1",)),
    "Service.snapshot.component": (lambda: dumping(component="main"), ("w1",)),
    "Service.snapshot.volume": (lambda: dumping(volume="book"), ("w1",)),
    "Service.needs": (wishing, ("w1",)),
    "Provides.type": (wishing, ("w1",)),
    "AlertTarget.nodes": (telling, ("w2",)),
    "AlertTarget.quiet": (lambda: telling(quiet="22:00-07:00"), ("w2",)),
    "Storage.location": (lambda: storing(("w2",)), ("w2",)),
    "FleetDocument.backups.retain.last": (
        lambda: replace(fleet(), backups=Backups(retain=Retain(daily=7))),
        ("w1", "w2"),
    ),
    "FleetDocument.backups.cron": (lambda: replace(fleet(), backups=Backups(cron="@daily")), ("w1", "w2")),
    "FleetDocument.backups.drill_cron": (lambda: replace(fleet(), backups=Backups(drill_cron="@weekly")), ("w1", "w2")),
    "Trust.thresholds.destroy_requires": (touching, ("w1", "w2")),
    "Trust.operators.scope": (scoped, ("w1", "w2")),
}


def applied(start: Fleet) -> Applied:
    hub = mailbox()
    commit(hub, start)
    found = hub.applied()
    assert found is not None
    return found


def planned(wanted: Fleet, before: Applied | None, known: dict[str, int], only: str | None = None) -> bool:
    """Whether the plan is made; a refusal names the node and a remedy."""
    try:
        plan(wanted, before, Inputs(uses=Uses(formats=known), only=only))
    except Conflict as refused:
        assert refused.code == "agent_too_old" and "upgrade the agent on w" in refused.remedy
        return False
    return True


def test_the_cases_cover_the_table() -> None:
    assert USES.keys() == {feature.key for feature in FEATURES}
    assert max(*(f.format for f in FEATURES), formats.MOVES, formats.RETURNS) == formats.NEWEST >= formats.BOUND_SECRETS


@pytest.mark.parametrize("key", USES)
def test_a_new_use_is_refused_while_a_node_that_gets_it_is_of_an_older_format(key: str) -> None:
    make, nodes = USES[key]
    for before in (None, applied(fleet())):
        for node in nodes:
            assert not planned(make(), before, {node: 1}) and not planned(
                make(), before, {"w1": formats.NEWEST, "w2": formats.NEWEST, node: 0}
            )
        assert planned(make(), before, {}) and planned(make(), before, {"w1": formats.NEWEST, "w2": formats.NEWEST})
    assert planned(fleet(), None, {"w1": 0, "w2": 0}), "a fleet without it needs no upgrade"


@pytest.mark.parametrize("key", [key for key in USES if key.startswith("Service")])
def test_a_use_that_is_applied_stays(key: str) -> None:
    make, _ = USES[key]
    before = applied(make())
    changed = replace(make(), services={"web": replace(make().services["web"], protect=True)})
    assert planned(make(), before, {"w1": 1}) and planned(changed, before, {"w1": 1})
    assert planned(make(), applied(fleet()), {"w2": 1}), "w2 does not get it"


def test_operators_may_change_where_a_use_is_applied() -> None:
    changed = replace(scoped(), operators=(*scoped().operators, operator_signer("eve", "apply")[0]))
    assert planned(changed, applied(scoped()), {"w1": 1, "w2": 1})


def test_a_target_that_a_node_has_already_may_change() -> None:
    assert planned(telling("1h"), applied(telling()), {"w2": 1}) and planned(telling(), applied(fleet()), {"w1": 1})
    quiet = telling(quiet="22:00-07:00")
    assert not planned(quiet, applied(telling()), {"w2": 3}), "it has the target, and cannot read this"
    assert planned(telling("1h", quiet="22:00-07:00"), applied(quiet), {"w2": 3}), "it has got it already"
    assert not planned(telling(nodes=("w1", "w2")), applied(telling()), {"w1": 1, "w2": 1}), "another node gets it"


def test_a_use_that_is_applied_does_not_move_to_an_older_agent() -> None:
    def at(node: str) -> Fleet:
        (component,) = service(headers=("remote-user",)).components
        return replace(fleet(), services={"web": Service((replace(component, volumes=()),), node=node)})

    before = applied(at("w1"))
    assert not planned(at("w2"), before, {"w1": 1, "w2": 1}) and planned(
        at("w2"), before, {"w1": 1, "w2": formats.NEWEST}
    )


def test_a_deploy_of_another_service_is_not_refused() -> None:
    wanted = replace(fleet(volume="off"), services={"web": service("off"), "api": service(node="w2")})
    assert planned(wanted, applied(fleet()), {"w1": 1}, only="service.api")
    assert not planned(wanted, applied(fleet()), {"w1": 1}, only="service.web")


def test_an_edge_gets_the_headers_too() -> None:
    start = edge_fleet()
    (name,) = start.services
    (component,) = start.services[name].components
    routes = tuple(replace(route, pass_headers=("remote-user",)) for route in component.routes)
    wanted = replace(
        start, services={name: replace(start.services[name], components=(replace(component, routes=routes),))}
    )
    with pytest.raises(Conflict, match=r"the agent on e1 .*pass_headers"):
        plan(wanted, None, Inputs(uses=Uses(formats={"e1": 1})))


# ---- plans that are not made of files


@pytest.mark.parametrize("key", [key for key in USES if key.startswith("Service") and key != "Service.needs"])
def test_a_rollback_is_refused_as_an_apply_is(key: str) -> None:
    make, _ = USES[key]
    hub = mailbox()
    commit(hub, make())
    then = hub.applied()
    commit(hub, fleet())
    now = hub.applied()
    assert then is not None and now is not None
    with pytest.raises(Conflict, match="the agent on w1 is of an older release") as refused:
        plan_rollback(then.table, now, {"w1": 1, "w2": formats.NEWEST})
    assert refused.value.code == "agent_too_old" and "upgrade the agent on w1" in refused.value.remedy
    for known in ({}, {"w1": formats.NEWEST}, {"w1": formats.NEWEST, "w2": 1}):
        assert plan_rollback(then.table, now, known).candidate is not None
    assert plan_rollback(now.table, then, {"w1": 1}).candidate is not None, "back to what it can read"


def test_a_drain_moves_nothing_to_an_agent_that_cannot_read_it() -> None:
    (component,) = service(headers=("remote-user",)).components
    web = Service((replace(component, volumes=()),))
    before = applied(replace(fleet(), services={"web": web}))
    home = str(before.table.entries["service.web"].node)
    (other,) = {"w1", "w2"} - {home}
    with pytest.raises(Conflict, match=rf"the agent on {other} .*pass_headers"):
        plan_drain(home, before, {}, reads={home: formats.NEWEST, other: 1})
    assert plan_drain(home, before, {}, reads={home: 1, other: formats.NEWEST}).candidate is not None


def test_what_a_plan_does_not_change_is_not_read() -> None:
    """Its content may be lost: a plan for another service is made all the same."""
    before = applied(fleet())
    formats.require(before.table, {}, before, {"w1": 1})
