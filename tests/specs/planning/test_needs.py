"""Needs in a plan and in a revision: who provides, which pairs follow, what the hub refuses, who must sign."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.acceptance.manifest import decode_manifest
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import Component, Fleet, Node, Service, Volume
from holdfast.model.ids import parse_address
from holdfast.model.manifest import NodeManifest
from holdfast.model.need import Need, Pair, Provides, Want
from holdfast.model.plan import Change, Plan
from holdfast.model.revision import Table, decode_table
from holdfast.planning.compile import compile_revision
from holdfast.planning.contents import layered
from holdfast.planning.drain import plan_drain
from holdfast.planning.kept_copy import plan_again
from holdfast.planning.manifests import compile_manifests
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_move
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.rollback import plan_rollback
from holdfast.planning.secrets import Uses
from holdfast.planning.succession import judge
from holdfast.planning.undeploy import plan_undeploy
from tests.fleets.build import digest_pinned
from tests.fleets.needing import DB, NEED, POSTGRES, TOKENS, applied, candidate, keyed, needing, needing_fleet
from tests.fleets.sealing import sealed_to

FACTS = {"host": "db.example.com", "port": "5432"}
WANT = Want("postgres", "p1", facts=FACTS)
TOKEN = Need("token", "tokens", params={"scope": "read"})
DB2 = replace(DB, node="p2")


def planned(fleet: Fleet, now: Applied | None = None, **more: Any) -> Plan:
    return plan(fleet, now, Inputs(identities=keyed(fleet), **more))


def manifests(fleet: Fleet) -> dict[str, NodeManifest]:
    table = decode_table(candidate(planned(fleet)).table)
    return {node: decode_manifest(text) for node, text in compile_manifests("f" * 64, table).items()}


def changed(found: Plan, address: str) -> Change:
    return next(change for change in found.changes if change.address == address)


# ---- who provides


def test_the_only_provider_that_lists_the_service_meets_its_need_f02() -> None:
    table = decode_table(candidate(planned(needing_fleet(provides=(replace(DB2, services=("shop",)), DB)))).table)
    assert table.entries["service.web"].wants == {"db": WANT}


def test_a_provider_of_another_type_has_the_fields_of_its_answers_as_facts() -> None:
    fleet = needing_fleet({"web": needing(TOKEN, NEED)}, (DB, TOKENS))
    wants = decode_table(candidate(planned(fleet)).table).entries["service.web"].wants
    assert wants == {"db": WANT, "token": Want("tokens", "p1", {"scope": "read"}, {"fields": "user token"})}


def test_a_need_may_name_its_provider() -> None:
    fleet = needing_fleet({"web": needing(replace(NEED, provider="p2"))}, (DB, DB2))
    assert decode_table(candidate(planned(fleet)).table).entries["service.web"].wants["db"].provider == "p2"


REFUSED: dict[str, tuple[Fleet, str, str]] = {
    "two": (needing_fleet(provides=(DB2, DB)), "several nodes provide postgres to this service: p1, p2", "provider ="),
    "none": (needing_fleet(provides=()), 'nothing provides "postgres"', "add a [[provides]]"),
    "misspelt": (needing_fleet({"web": needing(Need("db", "postgrs"))}), 'nothing provides "postgrs"', "mean postgres"),
    "not listed": (
        needing_fleet(provides=(replace(DB, services=("shop",)),)),
        "no [[provides]] of postgres lists this service (those of: p1)",
        'add "web" to services',
    ),
    "not listed by the one it names": (
        needing_fleet({"web": needing(replace(NEED, provider="p2"))}, (DB, replace(DB2, services=("shop",)))),
        "lists this service (those of: p2)",
        "of p2",
    ),
    "not a provider": (
        needing_fleet({"web": needing(replace(NEED, provider="w2"))}),
        "w2 provides no postgres",
        "nodes that provide it are: p1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_need_without_one_provider_is_refused_with_what_would_help(case: str) -> None:
    fleet, what, remedy = REFUSED[case]
    with pytest.raises(Invalid) as refused:
        planned(fleet)
    assert refused.value.code == "no_provider" and "service.web: its need db: " in refused.value.message
    assert what in refused.value.message and remedy in refused.value.remedy


@pytest.mark.parametrize("calls", ["relay", "off"])
@pytest.mark.parametrize("name", ["w1", "p1"])
def test_both_nodes_of_a_pair_must_take_calls_c12(calls: Any, name: str) -> None:
    roles: Any = ("worker", "provider") if name == "p1" else ("worker",)
    closed = Node(name, roles, peer_calls=calls)
    with pytest.raises(Invalid, match=rf'service\.web needs calls .* {name} has peer_calls = "{calls}"'):
        planned(needing_fleet(nodes=(closed,)))
    assert planned(needing_fleet({"web": needing()}, nodes=(closed,))).candidate is not None, "no pair, no call"
    with pytest.raises(Invalid, match=rf"{name} has peer_calls"):
        planned(needing_fleet(nodes=(closed,)), applied(needing_fleet()))


def test_a_service_that_is_listed_and_does_not_exist_is_a_warning() -> None:
    found = planned(needing_fleet(provides=(replace(DB, services=("web", "wbe")),)))
    (warning,) = (one for one in found.warnings if one.startswith("provides."))
    assert warning == "provides.p1.postgres: there is no service wbe yet; did you mean web?"


# ---- what nodes get


def test_both_nodes_of_a_pair_get_it_with_the_key_and_the_address_of_the_other_f25() -> None:
    made = manifests(needing_fleet())
    pair = Pair("web", "db", "postgres", "w1", "p1", 1, {}, FACTS)
    assert made["w1"].pairs == made["p1"].pairs == (pair,)
    assert {node: peer.address for node, peer in made["w1"].peers.items()} == {"p1": "100.64.0.3"}
    assert {node: peer.address for node, peer in made["p1"].peers.items()} == {"w1": "100.64.0.1"}
    assert made["w1"].peers["p1"].key == keyed(needing_fleet())["p1"].key
    assert made["w1"].issuers == {"p1": b"certificate of p1"} and not made["p1"].issuers
    assert made["w1"].services["service.web"].wants == {"db": WANT}
    assert not (made["w2"].pairs or made["w2"].peers or made["p2"].pairs or made["p2"].more)


def test_the_provider_alone_gets_what_it_provides_with_its_sealed_secret() -> None:
    fleet = needing_fleet()
    made = manifests(fleet)
    (address,) = made["p1"].more
    assert address == "provides.p1.postgres" == parse_address(address)
    assert made["p1"].more[address].secrets == {"admin": canonical.digest(fleet.secrets["admin"])}
    assert not made["w1"].more


def test_pairs_are_sorted_and_a_node_may_provide_for_itself() -> None:
    services = {"shop": needing(TOKEN, node="p1"), "web": needing(TOKEN, NEED)}
    made = manifests(needing_fleet(services, (DB, TOKENS)))
    assert [(one.service, one.need) for one in made["p1"].pairs] == [("shop", "token"), ("web", "db"), ("web", "token")]
    assert [one.service for one in made["w1"].pairs] == ["web", "web"]
    assert set(made["p1"].peers) == {"p1", "w1"} and set(made["p1"].issuers) == {"p1"}


def test_a_service_that_is_not_active_has_needs_and_no_pair() -> None:
    fleet = needing_fleet({"web": needing(NEED, active=False)})
    assert manifests(fleet)["p1"].pairs == () and manifests(fleet)["w1"].services["service.web"].wants == {"db": WANT}


def test_a_fleet_without_needs_compiles_to_the_same_bytes() -> None:
    def made(provides: tuple[Provides, ...]) -> dict[str, bytes]:
        fleet = needing_fleet({"web": needing()}, provides)
        return compile_manifests("f" * 64, decode_table(candidate(planned(fleet)).table))

    with_it, without = made((DB,)), made(())
    assert b"wants" not in without["w1"] and b"pairs" not in b"".join(without.values())
    assert [node for node in without if with_it[node] != without[node]] == ["p1"]


def test_what_restarts_and_what_holds_a_start_is_in_the_document_of_the_service() -> None:
    """The agent reads it there: it is no part of a pair."""
    need = replace(NEED, on_change="nothing", required=True)
    found = candidate(planned(needing_fleet({"web": needing(need)})))
    digest = decode_table(found.table).entries["service.web"].digest
    assert b'"on_change":"nothing"' in found.blobs[digest] and b'"required":true' in found.blobs[digest]


# ---- what moves


def test_a_service_that_moves_keeps_its_needs_and_its_pair_follows() -> None:
    data = (Component("main", digest_pinned("app:1"), volumes=(Volume("d", "/d", "backup"),)),)
    for service, other in ((needing(NEED, node="w1"), "w2"), (Service(data, node="w1", needs=(NEED,)), "w2")):
        now = applied(needing_fleet({"web": service}))
        table = decode_table(candidate(plan_move(Wish("web", other), now, {})).table)
        assert table.entries["service.web"].wants == {"db": WANT}
        made = {node: decode_manifest(text) for node, text in compile_manifests("f" * 64, table).items()}
        (pair,) = made["p1"].pairs
        assert (pair.consumer, pair.epoch) == ("w2", 2) and made["w2"].pairs == (pair,)
        assert made["w1"].pairs == () and "w1" not in made["p1"].peers


def test_a_move_to_a_node_that_takes_no_calls_is_refused() -> None:
    now = applied(needing_fleet(nodes=(Node("w2", ("worker",), peer_calls="relay"),)))
    with pytest.raises(Invalid, match="w2 has peer_calls"):
        plan_move(Wish("web", "w2"), now, {})


def test_a_drained_provider_goes_on_and_the_plan_says_for_whom() -> None:
    found = plan_drain("p1", applied(needing_fleet()), {})
    assert "provides.p1.postgres stays on p1: service.web (need db)" in found.warnings
    assert decode_table(candidate(found).table).entries["provides.p1.postgres"].node == "p1"


# ---- grades and what a plan shows


def test_a_new_need_within_what_is_provided_takes_grade_apply_and_is_shown() -> None:
    before = applied(needing_fleet({"web": needing()}))
    found = planned(needing_fleet(), before)
    change = changed(found, "service.web")
    assert found.grade == "apply" and change.why.endswith("its need db is met by p1 (postgres)")
    shown = {field.path: field.after for field in change.fields}
    assert shown["need db"] == "postgres of p1 (host db.example.com, port 5432)"
    assert planned(needing_fleet({"web": needing()}), applied(needing_fleet())).grade == "apply", "and so does its end"


def test_a_new_service_shows_who_meets_its_needs() -> None:
    found = planned(needing_fleet(), applied(needing_fleet({})))
    assert found.grade == "apply" and "its need db is met by p1 (postgres)" in changed(found, "service.web").why


MORE = replace(DB, services=("web", "shop"))
GRADES: dict[str, tuple[Provides | None, Provides | None, str]] = {
    "new": (None, DB, "destroy"),
    "removed": (DB, None, "destroy"),
    "more services": (DB, MORE, "destroy"),
    "fewer services": (MORE, DB, "apply"),
    "shorter grace": (DB, replace(DB, grace="1d"), "destroy"),
    "longer grace": (DB, replace(DB, grace="30d"), "apply"),
    "a ttl": (DB, replace(DB, ttl="1d"), "destroy"),
    "shorter ttl": (replace(DB, ttl="2d"), replace(DB, ttl="1d"), "destroy"),
    "longer ttl": (replace(DB, ttl="1d"), replace(DB, ttl="2d"), "apply"),
    "no ttl": (replace(DB, ttl="1d"), DB, "apply"),
    "params": (DB, replace(DB, params={**POSTGRES, "user": "admin"}), "destroy"),
}


@pytest.mark.parametrize("case", GRADES)
def test_who_must_sign_for_what_is_provided(case: str) -> None:
    before, after, grade = GRADES[case]
    services = {"web": needing()}
    given = [needing_fleet(services, (one,) if one else ()) for one in (before, after)]
    found = planned(given[1], applied(given[0]))
    assert found.grade == grade and changed(found, "provides.p1.postgres").grade == grade


def test_another_secret_of_a_provider_takes_grade_destroy() -> None:
    fleet = needing_fleet()
    other = replace(fleet, secrets={"admin": sealed_to("p1", value=b"other")})
    assert changed(planned(other, applied(fleet)), "provides.p1.postgres").grade == "destroy"


def test_another_provider_for_a_need_with_data_takes_grade_destroy() -> None:
    both = (DB, DB2)
    before = applied(needing_fleet({"web": needing(replace(NEED, provider="p1"))}, both))
    found = planned(needing_fleet({"web": needing(replace(NEED, provider="p2"))}, both), before)
    assert found.grade == "destroy" and "its data stays on p1" in changed(found, "service.web").demands[0].reason
    tokens = (TOKENS, replace(TOKENS, node="p2"))
    before = applied(needing_fleet({"web": needing(replace(TOKEN, provider="p1"))}, tokens))
    found = planned(needing_fleet({"web": needing(replace(TOKEN, provider="p2"))}, tokens), before)
    assert found.grade == "apply" and "in place of p1" in changed(found, "service.web").why


# ---- deploy, remove, roll back


def test_a_deploy_of_one_service_needs_what_is_applied() -> None:
    before = applied(needing_fleet({"web": needing()}, ()))
    with pytest.raises(Invalid, match=r"provides\.p1\.postgres, which is not applied") as refused:
        planned(needing_fleet(), before, only="service.web")
    assert refused.value.remedy.endswith("holdfast apply")
    before = applied(needing_fleet({"web": needing()}, (replace(DB, services=("shop",)),)))
    with pytest.raises(Invalid, match="does not list the service as applied"):
        planned(needing_fleet(), before, only="service.web")
    before = applied(needing_fleet({"web": needing()}))
    moved = replace(DB, params={**POSTGRES, "address": "other:1"})
    with pytest.raises(Invalid, match="other facts") as refused:
        planned(needing_fleet(provides=(moved,)), before, only="service.web")
    assert refused.value.remedy == "holdfast apply"
    assert [c.address for c in planned(needing_fleet(), before, only="service.web").changes] == ["service.web"]


def test_what_is_in_use_is_not_removed_before_the_needs() -> None:
    before = applied(needing_fleet())
    with pytest.raises(Invalid, match=r"removes provides\.p1\.postgres, which is in use: service\.web \(need db\)"):
        planned(needing_fleet({"web": needing()}, ()), before)
    later = planned(needing_fleet({"web": needing()}, ()), applied(needing_fleet(), needing_fleet({"web": needing()})))
    assert later.removals and changed(later, "provides.p1.postgres").removes


def test_a_removed_provider_leaves_a_tombstone_at_its_node() -> None:
    now = applied(needing_fleet({"web": needing()}), needing_fleet({"web": needing()}, ()))
    assert now.table.tombstones["provides.p1.postgres"].node == "p1"
    made = {n: decode_manifest(text) for n, text in compile_manifests(now.fleet_id, now.table).items()}
    assert [n for n, one in made.items() if "provides.p1.postgres" in one.retired] == ["p1"]


def test_an_undeployed_service_leaves_no_pair() -> None:
    now = applied(needing_fleet())
    table = decode_table(candidate(plan_undeploy("service.web", now)).table)
    assert compile_manifests("f" * 64, table)["p1"].count(b"pairs") == 0


def test_a_rollback_has_the_needs_of_then_as_they_are_provided_then() -> None:
    first = applied(needing_fleet())
    moved = replace(DB, params={**POSTGRES, "address": "[fd00::5]:6000"})
    now = applied(needing_fleet(), needing_fleet({"web": needing(NEED, protect=True)}, (moved,)))
    assert now.table.entries["service.web"].wants["db"].facts == {"host": "fd00::5", "port": "6000"}
    found = decode_table(candidate(plan_rollback(first.table, now)).table)
    assert found.entries["service.web"].wants == {"db": WANT}
    judged(found, now, plan_rollback(first.table, now))


def test_a_service_that_comes_back_has_the_needs_of_its_file_as_they_are_provided_now() -> None:
    first = applied(needing_fleet())
    moved = replace(DB, params={**POSTGRES, "address": "other:1"})
    now = applied(needing_fleet(), needing_fleet({}, (DB,)), needing_fleet({}, (moved,)))
    found = plan_again("web", "w1", first.table, now)
    wants = decode_table(candidate(found).table).entries["service.web"].wants
    assert wants["db"].facts == {"host": "other", "port": "1"}
    gone = applied(needing_fleet(), needing_fleet({}, (DB,)), needing_fleet({}, ()))
    with pytest.raises(Invalid, match="its need db: nothing provides"):
        plan_again("web", "w1", first.table, gone)


# ---- formats


def test_both_nodes_of_a_pair_must_read_needs() -> None:
    for name in ("w1", "p1"):
        with pytest.raises(Conflict, match=rf"the agent on {name} is of an older release"):
            planned(needing_fleet(), uses=Uses(formats={"w1": 8, "p1": 8, name: 7}))
    assert planned(needing_fleet(), uses=Uses(formats={"w2": 7, "p2": 7})).candidate is not None
    before = applied(needing_fleet({"web": needing()}))
    with pytest.raises(Conflict, match=r"the agent on p1 .*needs of service\.web"):
        planned(needing_fleet(), before, uses=Uses(formats={"p1": 7}))


def test_a_rollback_to_needs_is_refused_as_an_apply_is() -> None:
    then, now = applied(needing_fleet()), applied(needing_fleet(), needing_fleet({"web": needing()}))
    for name in ("w1", "p1"):
        with pytest.raises(Conflict, match=rf"the agent on {name} is of an older release"):
            plan_rollback(then.table, now, {"w1": 8, "p1": 8, name: 7})
    assert plan_rollback(then.table, now, {"w1": 8, "p1": 8}).candidate is not None


# ---- what the hub refuses


def judged(table: Table, before: Applied, found: Plan) -> Any:
    contents = layered(dict(candidate(found).blobs), before.contents)
    return judge(before.table, table, before.contents, contents, before.head.number + 1)


def entry(table: Table, address: str, **fields: Any) -> Table:
    return replace(table, entries={**table.entries, address: replace(table.entries[address], **fields)})


def wanting(**fields: Any) -> Callable[[Table], Table]:
    return lambda table: entry(table, "service.web", wants={"db": replace(WANT, **fields)})


LIES: dict[str, Callable[[Table], Table]] = {
    "no need": lambda t: entry(t, "service.web", wants={}),
    "another need": lambda t: entry(t, "service.web", wants={"db": WANT, "more": WANT}),
    "another name": lambda t: entry(t, "service.web", wants={"main": WANT}),
    "another type": wanting(type="tokens"),
    "parameters": wanting(params={"a": "b"}),
    "another host": wanting(facts={**FACTS, "host": "evil.example.com"}),
    "a fact too many": wanting(facts={**FACTS, "path": "/"}),
    "a provider that does not list it": wanting(provider="p2"),
    "a provider that is none": wanting(provider="w2"),
    "a provider that is no name": wanting(provider="../p1"),
    "needs of a node": lambda t: entry(t, "node.w1", wants={"db": WANT}),
    "a node of a provider": lambda t: entry(t, "provides.p1.postgres", node="w1"),
    "no secret of a provider": lambda t: entry(t, "provides.p1.postgres", secrets={}),
    "a provider under another name": lambda t: replace(
        t, entries={**t.entries, "provides.p2.postgres": t.entries["provides.p1.postgres"]}
    ),
    "a provider under one name": lambda t: replace(
        t, entries={**t.entries, "provides.p1": t.entries["provides.p1.postgres"]}
    ),
    "no provider": lambda t: replace(t, entries={a: e for a, e in t.entries.items() if a != "provides.p1.postgres"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_table_that_means_something_else_than_its_documents_is_refused(lie: str) -> None:
    before = applied(needing_fleet({"web": needing(), "shop": needing(TOKEN)}, (TOKENS,)))
    fleet = needing_fleet(
        {"web": needing(NEED), "shop": needing(TOKEN)}, (TOKENS, DB, replace(DB2, services=("shop",)))
    )
    found = planned(fleet, before)
    table = decode_table(candidate(found).table)
    assert judged(table, before, found).grade == "destroy"
    with pytest.raises(HoldfastError):
        judged(LIES[lie](table), before, found)


def test_what_is_provided_does_not_change_below_an_applied_need() -> None:
    """The service entry stays as it was, and would be wrong."""
    before = applied(needing_fleet())
    for one in (replace(DB, services=("shop",)), replace(DB, params={**POSTGRES, "address": "x:1"})):
        text = canonical.encode(one)
        changes = {"digest": canonical.digest(text)}
        table = entry(before.table, "provides.p1.postgres", **changes)
        made = compile_revision(table, before, {changes["digest"]: text}).candidate
        contents = layered(dict(made.blobs), before.contents)
        with pytest.raises(HoldfastError, match="need db"):
            judge(before.table, table, before.contents, contents, 2)


def test_a_provider_keeps_its_role_while_it_provides() -> None:
    before = applied(needing_fleet())
    text = canonical.encode(Node("p1", ("worker",), address="100.64.0.3"))
    table = entry(before.table, "node.p1", digest=canonical.digest(text))
    with pytest.raises(HoldfastError, match=r"provides\.p1\.postgres is of p1, which is not a provider"):
        judge(before.table, table, before.contents, layered({canonical.digest(text): text}, before.contents), 2)


@pytest.mark.parametrize(
    "params",
    [{}, {"address": "x:1"}, {**POSTGRES, "address": "x"}, {**POSTGRES, "tls": "maybe"}, {**POSTGRES, "port": "1"}],
)
def test_what_is_provided_in_a_wrong_form_is_refused_by_the_hub_too(params: dict[str, str]) -> None:
    fleet = needing_fleet({"web": needing()}, (replace(DB, params=params),))
    found = plan(fleet, None)
    assert found.candidate is not None
    table, nothing = decode_table(found.candidate.table), Table({})
    contents = {**found.candidate.blobs}
    with pytest.raises(HoldfastError, match=r"provides\.p1\.postgres: "):
        judge(nothing, table, {}, contents, 1)
