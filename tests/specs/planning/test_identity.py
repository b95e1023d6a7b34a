"""Which key is which node: declared, proven, kept, revoked; and who must sign each of these."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import Conflict
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model import canonical, ssh_key
from holdfast.model.fleet import AlertTarget, Fleet, Node, Service
from holdfast.model.manifest import NodeManifest
from holdfast.model.plan import Plan
from holdfast.model.revision import Entry, NodeIdentity, Table, decode_table
from holdfast.planning.kinds.kind import Proposal
from holdfast.planning.manifests import compile_manifests
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.rollback import plan_rollback
from holdfast.planning.soundness import check_entry, check_table
from holdfast.planning.unsound import Unsound
from tests.fleets.build import commit, mailbox, operator_signer, signed, small_fleet

ISSUER = "ab" * 32


def key(name: str) -> str:
    return ssh_key.line(operator_signer(name)[1].public_key)


def applied_hub(fleet: Fleet | None = None) -> Revisions:
    hub = mailbox()
    commit(hub, fleet or small_fleet())
    return hub


def planned(hub: Revisions, fleet: Fleet | None = None, **inputs: object) -> Plan:
    return plan(fleet or small_fleet(), hub.applied(), Inputs(**inputs))  # type: ignore[arg-type]


def entry_of(found: Plan, address: str = "node.w1") -> Entry:
    assert found.candidate is not None
    return decode_table(found.candidate.table).entries[address]


def declaring(line: str) -> Fleet:
    return replace(small_fleet(), nodes={"w1": Node("w1", ("worker",), key=line)})


def test_a_key_proven_by_an_enrolment_is_recorded_with_grade_destroy_i_12() -> None:
    found = planned(applied_hub(), identities={"w1": NodeIdentity(key("one"), ISSUER)})
    (change,) = found.changes
    assert (change.address, change.why, found.grade) == ("node.w1", "records the key it joined with", "destroy")
    assert [demand.reason for demand in change.demands] == ["records the key it joined with"]
    assert {field.path for field in change.fields} == {"identity.fingerprint", "identity.key", "identity.issuer"}
    assert entry_of(found).identity == NodeIdentity(key("one"), ISSUER)
    assert found.nodes_touched == ("w1",)


def recorded_hub(known: NodeIdentity) -> Revisions:
    hub = applied_hub()
    hub.commit(signed(planned(hub, identities={"w1": known})))
    return hub


def test_what_was_recorded_stays_without_being_proven_again() -> None:
    """An offline plan, or one while the hub forgot the enrolment, changes nothing."""
    assert planned(recorded_hub(NodeIdentity(key("one"), ISSUER))).candidate is None


def test_a_proof_without_the_issuer_keeps_the_pinned_one() -> None:
    hub = recorded_hub(NodeIdentity(key("one"), ISSUER))
    assert planned(hub, identities={"w1": NodeIdentity(key("one"))}).candidate is None


def test_a_node_that_joined_with_another_key_is_re_keyed_w4() -> None:
    found = planned(recorded_hub(NodeIdentity(key("one"))), identities={"w1": NodeIdentity(key("two"))})
    assert (found.changes[0].why, found.grade) == ("replaces the node's key", "destroy")
    assert entry_of(found).identity == NodeIdentity(key("two"))


def test_another_issuer_alone_needs_destroy_too() -> None:
    found = planned(recorded_hub(NodeIdentity(key("one"))), identities={"w1": NodeIdentity(key("one"), ISSUER)})
    assert (found.changes[0].why, found.grade) == ("records the certificate it issues from", "destroy")


def test_a_revoked_key_leaves_the_table() -> None:
    hub = recorded_hub(NodeIdentity(key("one")))
    found = planned(hub, revoked=frozenset({key("one")}), identities={"w1": NodeIdentity(key("one"))})
    assert (found.changes[0].why, found.grade) == ("removes its key, which was revoked", "destroy")
    assert entry_of(found).identity is UNSET


def test_a_declared_key_wins_and_needs_no_join() -> None:
    found = planned(applied_hub(), declaring(key("one") + " comment"))
    assert entry_of(found).identity == NodeIdentity(key("one"))
    assert found.grade == "destroy"


def test_a_declared_key_takes_the_issuer_of_the_node_that_proved_it() -> None:
    found = planned(applied_hub(), declaring(key("one")), identities={"w1": NodeIdentity(key("one"), ISSUER)})
    assert entry_of(found).identity == NodeIdentity(key("one"), ISSUER)


def test_a_declared_key_that_is_not_the_proven_one_stops_the_plan() -> None:
    with pytest.raises(Conflict) as trouble:
        planned(applied_hub(), declaring(key("one")), identities={"w1": NodeIdentity(key("two"))})
    assert trouble.value.code == "key_differs"


def test_a_declared_key_that_was_revoked_stops_the_plan() -> None:
    with pytest.raises(Conflict) as trouble:
        planned(applied_hub(), declaring(key("one")), revoked=frozenset({key("one")}))
    assert trouble.value.code == "key_revoked"


def test_a_rollback_brings_no_old_key_back() -> None:
    hub = recorded_hub(NodeIdentity(key("one")))
    applied = hub.applied()
    assert applied is not None
    old = applied.table
    hub.commit(signed(planned(hub, identities={"w1": NodeIdentity(key("two"))})))
    commit(hub, small_fleet({"web": 2}))
    now = hub.applied()
    assert now is not None
    back = plan_rollback(old, now)
    assert [change.address for change in back.changes] == ["service.web"]
    assert entry_of(back).identity == NodeIdentity(key("two"))


@pytest.mark.parametrize("line", ["ssh-ed25519 AAAA", key("one") + " comment", "", "x" * 20_000])
def test_the_hub_takes_no_key_that_is_none(line: str) -> None:
    table, contents = table_with(NodeIdentity(line))
    with pytest.raises(Unsound):
        check_entry(Proposal("node.w1", Table({}), table, contents))


def table_with(known: NodeIdentity, fleet: Fleet | None = None) -> tuple[Table, dict[str, bytes]]:
    found = plan(fleet or small_fleet(), None)
    assert found.candidate is not None
    table = decode_table(found.candidate.table)
    entries = {**table.entries, "node.w1": replace(table.entries["node.w1"], identity=known)}
    return Table(entries), dict(found.candidate.blobs)


def test_the_hub_takes_no_other_key_than_the_declared_one() -> None:
    table, contents = table_with(NodeIdentity(key("two")), declaring(key("one")))
    with pytest.raises(Unsound, match="declares one key"):
        check_entry(Proposal("node.w1", Table({}), table, contents))


def test_only_nodes_have_keys_and_no_two_the_same() -> None:
    table, contents = table_with(NodeIdentity(key("one")))
    spoiled = replace(table.entries["service.web"], identity=NodeIdentity(key("one")))
    with pytest.raises(Unsound, match="has fields of another kind"):
        check_entry(Proposal("service.web", Table({}), Table({**table.entries, "service.web": spoiled}), contents))
    twin = {**table.entries, "node.w2": table.entries["node.w1"]}
    with pytest.raises(Unsound, match="have the same key"):
        check_table(Table(twin))


# ---- what a node's manifest tells it --------------------------------------------------------------------------------


def manifest_of(found: Plan, node: str) -> NodeManifest:
    assert found.candidate is not None
    texts = compile_manifests("f" * 64, decode_table(found.candidate.table))
    return canonical.decode(texts[node], NodeManifest, "a manifest")


def test_a_manifest_has_the_nodes_own_entry_with_its_key() -> None:
    found = planned(applied_hub(), identities={"w1": NodeIdentity(key("one"), ISSUER)})
    assert manifest_of(found, "w1").own == entry_of(found)


def test_a_tombstone_goes_to_the_node_it_was_removed_from_or_to_all_i_22() -> None:
    """Every tombstone is in some manifest: a lost ledger is rebuilt from them."""
    two = small_fleet({}, ("w1", "w2", "w3"))
    one = {name: replace(service, node=node) for name, node, service in placed()}
    hub = applied_hub(replace(two, services=one, alerts={"chat": AlertTarget("chat", webhook="https://a.test/")}))
    nodes = {name: node for name, node in two.nodes.items() if name != "w3"}
    found = planned(hub, replace(two, nodes=nodes))
    everywhere = {"service.on-w3", "node.w3", "alert.chat"}
    assert manifest_of(found, "w1").retired.keys() == {"service.on-w1", *everywhere}
    assert manifest_of(found, "w2").retired.keys() == {"service.on-w2", *everywhere}


def placed() -> list[tuple[str, str, Service]]:
    return [(f"on-{node}", node, small_fleet().services["web"]) for node in ("w1", "w2", "w3")]


# ---- alerts ---------------------------------------------------------------------------------------------------------


def alerting(url: str) -> Fleet:
    return replace(small_fleet(), alerts={"chat": AlertTarget("chat", webhook=url)})


def test_an_alert_target_is_applied_with_grade_destroy_and_touches_no_node_x04() -> None:
    found = planned(applied_hub(), alerting("https://a.test/secret"))
    assert [(change.address, change.kind) for change in found.changes] == [("alert.chat", "create")]
    assert (found.grade, found.nodes_touched) == ("destroy", ())


def test_the_url_of_an_alert_is_masked_in_a_plan() -> None:
    found = planned(applied_hub(alerting("https://a.test/secret")), alerting("https://a.test/other-secret"))
    (field,) = found.changes[0].fields
    assert field.before != field.after
    assert field.path == "webhook"
    assert str(field.before).startswith("https://a.test/… (")
    assert "secret" not in f"{field.before}{field.after}"


def test_no_manifest_knows_an_alert() -> None:
    found = planned(applied_hub(), alerting("https://a.test/secret"))
    assert found.candidate is not None
    texts = compile_manifests("f" * 64, decode_table(found.candidate.table))
    assert not any(b"alert" in text for text in texts.values())


@pytest.mark.parametrize("target", [AlertTarget("chat"), AlertTarget("chat", "https://a.test/", "ntfy://a/b")])
def test_the_hub_takes_no_alert_that_says_none_or_both(target: AlertTarget) -> None:
    found = plan(replace(small_fleet(), alerts={"chat": target}), None)
    assert found.candidate is not None
    with pytest.raises(Unsound, match=r"has neither webhook nor apprise|has both webhook and apprise"):
        check_entry(Proposal("alert.chat", Table({}), decode_table(found.candidate.table), found.candidate.blobs))
