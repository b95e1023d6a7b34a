"""Alert targets that nodes send to (X17): who gets them, what no signature allows, who must sign."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.notifier.memory import MemoryNotifiers
from holdfast.cli.fleet import show_plan
from holdfast.cli.fleet.show_plan import document
from holdfast.errors import Invalid, NotPermitted, SignatureRequired
from holdfast.hub.alerts.alarms import Alarms
from holdfast.hub.nodes.node_contents import named
from holdfast.model import canonical, trust
from holdfast.model.applied import Applied
from holdfast.model.fleet import AlertTarget, Fleet, Node
from holdfast.model.manifest import NodeManifest
from holdfast.model.plan import Change
from holdfast.model.purpose import Purpose, resealed
from holdfast.model.revision import Entry
from holdfast.model.rules import NEWEST, Rules
from holdfast.planning.kinds import alert
from holdfast.planning.kinds.kind import Proposal, Step
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.secrets import Uses
from holdfast.planning.soundness import check_entry, check_table
from holdfast.planning.unsound import Unsound
from tests.fleets.build import ALICE, START_S, commit, mailbox, operator_signer, small_fleet
from tests.fleets.sealing import node_key, sealed_to

CAROL, CAROL_SIGNER = operator_signer("carol", "apply")
URL, OTHER_URL = sealed_to("w1", "w2", "@ada"), sealed_to("w1", "w2", "@ada")
PHONE = AlertTarget("phone", secret="phone-url", nodes=("w1", "w2"), after="5m")


def fleet(*targets: AlertTarget, **secrets: bytes) -> Fleet:
    found = small_fleet({"web": 1}, nodes=("w1", "w2", "w3"), operators=(ALICE, CAROL))
    nodes = {n: Node(n, ("worker",), key=node_key(n)) for n in found.nodes}
    sealed = {name.replace("_", "-"): value for name, value in secrets.items()}
    return replace(found, nodes=nodes, alerts={target.name: target for target in targets}, secrets=sealed)


BARE, WITH = fleet(), fleet(PHONE, phone_url=URL)


def applied(start: Fleet) -> Applied:
    hub = mailbox()
    commit(hub, start)
    found = hub.applied()
    assert found is not None
    return found


def change(start: Fleet, then: Fleet) -> Change:
    (found,) = plan(then, applied(start)).changes
    return found


# ---- who gets it


def test_the_nodes_that_send_get_the_target_and_its_sealed_address_and_no_other_node_does() -> None:
    found = applied(WITH)
    digest = canonical.digest(URL)
    assert found.table.entries["alert.phone"] == Entry(
        canonical.digest(canonical.encode(PHONE)), secrets={"phone-url": digest}, applies_to=("node.w1", "node.w2")
    )
    manifests = {node: found.contents[text] for node, text in found.header.manifests.items()}
    assert [node for node, text in manifests.items() if digest in named(text)] == ["w1", "w2"]
    more = {node: canonical.decode(text, NodeManifest, "it").more for node, text in manifests.items()}
    assert [list(held) for held in more.values()] == [["alert.phone"], ["alert.phone"], []]


def test_a_fleet_without_such_a_target_has_the_bytes_of_before() -> None:
    hook = AlertTarget("chat", webhook="https://chat.test/x")
    assert canonical.encode(hook) == b'{"name":"chat","webhook":"https://chat.test/x"}'
    found = applied(fleet(hook))
    assert found.table.entries["alert.chat"] == Entry(canonical.digest(canonical.encode(hook)))
    assert all(b"alert" not in found.contents[text] for text in found.header.manifests.values())


def test_the_plan_names_the_nodes_and_shows_no_address() -> None:
    created = change(BARE, WITH)
    assert created.why == "sent by w1, w2, without the hub"
    rotated = change(WITH, fleet(PHONE, phone_url=OTHER_URL))
    assert (rotated.notes, rotated.why) == (("secret phone-url rotated",), "")
    later = change(WITH, fleet(replace(PHONE, after="1h", nodes=("w1",)), phone_url=URL))
    assert {field.path for field in later.fields} == {"after", "nodes"}
    assert document(plan(WITH, applied(BARE)))["nodes_touched"] == ["w1", "w2"]
    assert show_plan.summary(plan(WITH, applied(BARE))).startswith("Plan: 1 to create. Touches 2 nodes: w1, w2.")


def test_the_hub_makes_no_use_of_a_target_that_is_sealed_to_nodes() -> None:
    hook = AlertTarget("chat", webhook="https://chat.test/x")
    make = MemoryNotifiers()
    alarms = Alarms(MemoryStore(), VirtualClock(START_S), make)
    alarms.committed(None, applied(fleet(PHONE, hook, phone_url=URL)))
    assert make.asked == [hook]


# ---- grade


CHANGES = {
    "added": (BARE, WITH),
    "removed": (WITH, BARE),
    "another address": (WITH, fleet(PHONE, phone_url=OTHER_URL)),
    "another secret": (WITH, fleet(replace(PHONE, secret="other"), other=URL)),
    "one node fewer": (WITH, fleet(replace(PHONE, nodes=("w1",)), phone_url=URL)),
    "one node more": (fleet(replace(PHONE, nodes=("w1",)), phone_url=URL), WITH),
    "later": (WITH, fleet(replace(PHONE, after="30d"), phone_url=URL)),
    "the hub's instead": (WITH, fleet(AlertTarget("phone", webhook="https://evil.test/"))),
}


@pytest.mark.parametrize("name", CHANGES)
def test_x17_a_key_of_grade_apply_neither_adds_nor_changes_nor_removes_a_node_s_target(name: str) -> None:
    start, then = CHANGES[name]
    found = change(start, then)
    assert found.grade == "destroy" and "changes where nodes send alerts" in [d.reason for d in found.demands]
    hub = mailbox()
    commit(hub, start)
    with pytest.raises((SignatureRequired, NotPermitted)):
        commit(hub, then, CAROL_SIGNER)
    commit(hub, then)


@pytest.mark.parametrize("rules", [NEWEST, "first"])
def test_also_by_the_rules_of_older_releases_which_had_no_such_target(rules: Rules) -> None:
    """Else a revision that claims to be old would add one."""
    bare, ours = Entry("1" * 64), Entry("1" * 64, secrets={"u": "2" * 64}, applies_to=("node.w1",))
    for before, after in ((None, ours), (ours, None), (ours, replace(ours, secrets={"u": "3" * 64})), (bare, ours)):
        step = Step("alert.phone", before, after, lambda: b"", lambda: b"", rules=rules)
        assert [demand.grade for demand in alert.demands(step)] == ["destroy"]
    assert list(alert.demands(Step("alert.x", None, bare, lambda: b"", lambda: b"", rules="first"))) == []


# ---- soundness


def unsound(entry: Entry, target: AlertTarget) -> str:
    found = applied(WITH)
    contents = {**found.contents, canonical.digest(canonical.encode(target)): canonical.encode(target)}
    entry = replace(entry, digest=canonical.digest(canonical.encode(target)))
    table = replace(found.table, entries=found.table.entries | {"alert.phone": entry})
    with pytest.raises(Unsound) as caught:
        check_entry(Proposal("alert.phone", found.table, table, contents))
    return caught.value.message


OURS = applied(WITH).table.entries["alert.phone"]


@pytest.mark.parametrize(
    ("entry", "target", "why"),
    [
        (replace(OURS, applies_to=("node.w1", "node.w3")), PHONE, "other nodes or secrets"),
        (replace(OURS, applies_to=()), PHONE, "other nodes or secrets"),
        (replace(OURS, secrets={}), PHONE, "other nodes or secrets"),
        (replace(OURS, secrets=OURS.secrets | {"db": canonical.digest(URL)}), PHONE, "other nodes or secrets"),
        (replace(OURS, secrets={"phone-url": canonical.digest(canonical.encode(PHONE))}), PHONE, "not sealed"),
        (OURS, replace(PHONE, webhook="https://a.test/"), "has both webhook and secret"),
        (OURS, replace(PHONE, nodes=()), "has secret without nodes"),
        (OURS, replace(PHONE, nodes=("w1", "w1")), "names a node twice"),
        (OURS, replace(PHONE, on=("node_silent",)), "has no effect"),
        (OURS, AlertTarget("phone", webhook="https://a.test/", nodes=("w1",)), "has nodes and webhook"),
        (OURS, AlertTarget("phone", webhook="https://a.test/", after="1m"), "has no effect without nodes"),
    ],
)
def test_what_no_signature_allows(entry: Entry, target: AlertTarget, why: str) -> None:
    found = unsound(entry, target)
    assert why in found or (why == "not sealed" and "phone-url of alert.phone" in found)


def test_a_target_of_a_node_that_leaves_the_table_is_refused() -> None:
    table = applied(WITH).table
    without = {address: entry for address, entry in table.entries.items() if address != "node.w2"}
    check_table(table)
    with pytest.raises(Unsound, match=r"alert\.phone is to be sent by a node that is not in the table"):
        check_table(replace(table, entries=without))


# ---- the seal


def known(**purpose: Any) -> Inputs:
    fleet_id = trust.digest(trust.of(WITH.operators, WITH.thresholds))
    whole = {"fleet": fleet_id, "name": "phone-url", "addresses": ("alerts.phone",)} | purpose
    return Inputs(uses=Uses(purposes={canonical.digest(URL): Purpose(**whole)}))


@pytest.mark.parametrize(
    "purpose",
    [{"addresses": ("service.web",)}, {"addresses": ("alert.phone",)}, {"addresses": ("alerts.other",)}, {"name": "x"}],
)
def test_a_secret_that_is_sealed_for_another_use_is_refused_in_the_plan(purpose: dict[str, Any]) -> None:
    assert plan(WITH, None, known()).candidate is not None
    with pytest.raises(Invalid) as caught:
        plan(WITH, None, known(**purpose))
    assert caught.value.code == "secret_not_for_it" and "if alerts.phone may have it" in caught.value.remedy


def test_the_command_that_gives_a_secret_of_another_name_to_a_target_names_the_target() -> None:
    other = Purpose("f" * 64, "other", ("service.web",))
    for address in ("alerts.phone", "service.web"):
        assert resealed(other, "phone-url", address) == f"holdfast secret rotate phone-url --keep --for {address}"


def test_an_address_that_a_node_cannot_open_is_refused() -> None:
    with pytest.raises(Invalid, match=r"w2 cannot open the secret phone-url, which alert\.phone needs there"):
        plan(fleet(PHONE, phone_url=sealed_to("w1", "@ada")), None)
