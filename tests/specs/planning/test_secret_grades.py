"""Secrets in plans: carried sealed, shown by name, refused where a node could not open them, graded (S13, design 2)."""

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.cli.fleet import saved_plan, show_plan
from holdfast.errors import Conflict, HoldfastError, Invalid, SignatureRequired
from holdfast.hub.nodes.node_contents import named
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import Component, Fleet, Node, SecretRef, Service
from holdfast.model.plan import Change, Plan
from holdfast.model.revision import Candidate, Entry, Table
from holdfast.model.secret import uses_of
from holdfast.planning import formats
from holdfast.planning.compile import compile_revision
from holdfast.planning.kinds.service_check import check_service
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.rollback import plan_rollback
from holdfast.planning.secrets import Uses
from holdfast.planning.service_entry import serving_metadata
from holdfast.planning.unsound import Unsound
from tests.fleets.build import ALICE, commit, digest_pinned, mailbox, operator_signer, sign, small_fleet
from tests.fleets.sealing import CANARY, node_key, sealed_to

W1 = sealed_to("w1", "@ada")
CAROL, CAROL_SIGNER = operator_signer("carol", "apply")


def service(*names: str, node: str = "w1", version: int = 1, failover: tuple[str, ...] = ()) -> Service:
    component = Component("main", digest_pinned(f"web:{version}"), secrets=names)
    return Service((component,), node=node, failover=failover)


def fleet(services: dict[str, Service], secrets: dict[str, bytes], keyless: tuple[str, ...] = ()) -> Fleet:
    found = small_fleet(services, nodes=("w1", "w2", "w3"), operators=(ALICE, CAROL))
    nodes = {n: Node(n, ("worker",), key="" if n in keyless else node_key(n)) for n in ("w1", "w2", "w3")}
    return replace(found, nodes=nodes, secrets=secrets)


def applied(start: Fleet) -> Applied:
    hub = mailbox()
    commit(hub, start)
    found = hub.applied()
    assert found is not None
    return found


def only_change(start: Fleet, then: Fleet) -> Change:
    (change,) = plan(then, applied(start)).changes
    return change


def candidate_of(found: Plan) -> Candidate:
    assert found.candidate is not None
    return found.candidate


BASE = fleet({"web": service("db")}, {"db": W1})


def test_what_is_sealed_is_content_of_the_revision_and_goes_to_the_node_that_needs_it() -> None:
    found = applied(BASE)
    digest = canonical.digest(W1)
    assert found.table.entries["service.web"].secrets == {"db": digest}
    assert found.contents[digest] == W1
    manifests = {node: found.contents[text] for node, text in found.header.manifests.items()}
    assert [node for node, text in manifests.items() if digest in named(text)] == ["w1"]


def test_a_secret_nobody_names_is_a_warning_and_travels_nowhere() -> None:
    found = plan(fleet({"web": service()}, {"db": W1}), None)
    assert "secrets/db.age: no component and no target names it, so no node gets it" in found.warnings
    assert canonical.digest(W1) not in candidate_of(found).blobs


def test_a_rotated_secret_is_one_line_of_the_plan_and_grade_apply() -> None:
    change = only_change(BASE, replace(BASE, secrets={"db": sealed_to("w1", "@ada")}))
    assert (change.address, change.kind, change.grade) == ("service.web", "update", "apply")
    assert change.notes == ("secret db rotated",) and [field.path for field in change.fields] == ["secret db"]


def test_secrets_that_come_and_go_are_named() -> None:
    then = fleet({"web": service("api")}, {"api": sealed_to("w1")})
    assert only_change(BASE, then).notes == ("secret api added", "secret db removed")


def test_no_value_is_in_a_plan_however_it_is_shown_or_kept() -> None:
    then = replace(BASE, secrets={"db": sealed_to("w1", "@ada", value=CANARY * 2)})
    start = applied(BASE)
    found = plan(then, start)
    shown = [msgspec.json.encode(show_plan.document(found)), saved_plan.save(found, start), repr(found).encode()]
    shown += candidate_of(found).blobs.values()
    assert not [text for text in shown if CANARY in text]
    (again,) = saved_plan.read(saved_plan.save(found, start)).plan.changes  # judged anew, from what the file holds
    assert again == replace(found.changes[0], why="")


# ---- who must be able to open it


def test_a_node_that_could_not_open_it_is_refused_with_the_command_that_helps() -> None:
    with pytest.raises(Invalid) as caught:
        plan(fleet({"web": service("db", node="w2")}, {"db": W1}), None)
    assert caught.value.code == "secret_not_readable" and "w2 cannot open the secret db" in caught.value.message
    assert caught.value.remedy == "holdfast secret rotate db --keep"


def test_a_failover_node_must_be_able_to_open_it_too() -> None:
    with pytest.raises(Invalid, match="w3 cannot open the secret db"):
        plan(fleet({"web": service("db", failover=("w3",))}, {"db": W1}), None)
    plan(fleet({"web": service("db", failover=("w3",))}, {"db": sealed_to("w1", "w3")}), None)


def test_a_node_that_has_not_joined_is_a_warning() -> None:
    found = plan(fleet({"web": service("db")}, {"db": sealed_to("@ada")}, keyless=("w1",)), None)
    assert any("w1, which has not joined yet" in warning for warning in found.warnings)


def gone_back() -> Applied:
    """w1 has another key since, and a rollback brought back what only the old one opened."""
    hub = mailbox()
    start = replace(BASE, services={**BASE.services, "other": service()})
    commit(hub, start)
    first = hub.applied()
    assert first is not None
    rekeyed = {**BASE.nodes, "w1": Node("w1", ("worker",), key=node_key("new w1"))}
    commit(hub, replace(start, nodes=rekeyed, secrets={"db": sealed_to("new w1", "@ada")}))
    now = hub.applied()
    assert now is not None
    entries = {**now.table.entries, "service.web": first.table.entries["service.web"]}
    found = plan_rollback(Table(entries, now.table.tombstones), now)
    assert any("w1 cannot open the secret db" in warning for warning in found.warnings)
    hub.commit(sign(candidate_of(found)))
    back = hub.applied()
    assert back is not None
    return back


def test_a_rollback_is_told_of_a_secret_that_does_not_open_and_is_not_held_up() -> None:
    assert gone_back().table.entries["service.web"].secrets == {"db": canonical.digest(W1)}


def test_a_deploy_of_another_service_is_not_held_up() -> None:
    rekeyed = {**BASE.nodes, "w1": Node("w1", ("worker",), key=node_key("new w1"))}
    then = replace(BASE, nodes=rekeyed, services={"web": service("db", version=2), "other": service(version=2)})
    assert plan(then, gone_back(), Inputs(only="service.other")).changes
    with pytest.raises(Invalid, match="w1 cannot open the secret db"):
        plan(then, gone_back(), Inputs(only="service.web"))


# ---- grades


@pytest.mark.parametrize(
    ("recipients", "grade"),
    [
        (("w1", "@ada"), "apply"),
        (("w1",), "apply"),  # fewer
        (("w1", "w2", "@ada"), "destroy"),
        (("w1", "@ada", "@bob"), "destroy"),
    ],
)
def test_more_recipients_than_before_need_grade_destroy(recipients: tuple[str, ...], grade: str) -> None:
    change = only_change(BASE, replace(BASE, secrets={"db": sealed_to(*recipients)}))
    assert change.grade == grade
    assert [demand.reason for demand in change.demands] == (
        ["seals the secret db to more recipients than before"] if grade == "destroy" else []
    )


def test_a_secret_follows_its_service_with_grade_apply() -> None:
    change = only_change(BASE, fleet({"web": service("db", node="w2")}, {"db": sealed_to("w2", "@ada")}))
    assert (change.kind, change.grade) == ("move", "apply")


def test_a_secret_of_another_service_needs_grade_destroy() -> None:
    """Else a deployer of one service could have any secret that is sealed to the node it runs on."""
    start = fleet({"web": service(), "db": service("db")}, {"db": W1})
    change = only_change(start, fleet({"web": service("db"), "db": service("db")}, {"db": W1}))
    assert (change.address, change.grade) == ("service.web", "destroy")
    assert change.demands[0].reason == "gives it the secret db, which service.db has"
    under_another_name = fleet({"web": service("mine"), "db": service("db")}, {"db": W1, "mine": W1})
    assert only_change(start, under_another_name).grade == "destroy"


def test_services_that_share_a_secret_rotate_it_together_with_grade_apply() -> None:
    start = fleet({"web": service("db"), "db": service("db")}, {"db": W1})
    found = plan(replace(start, secrets={"db": sealed_to("w1", "@ada")}), applied(start))
    assert len(found.changes) == 2 and found.grade == "apply"


def test_a_service_that_shares_a_secret_already_changes_with_grade_apply() -> None:
    start = fleet({"web": service("db"), "db": service("db")}, {"db": W1})
    then = fleet({"web": service("db", version=2), "db": service("db")}, {"db": W1})
    assert only_change(start, then).grade == "apply"


def test_a_renamed_service_takes_its_secret_along() -> None:
    assert plan(fleet({"site": service("db")}, {"db": W1}), applied(BASE)).grade == "apply"


def test_the_hub_refuses_a_widening_that_only_grade_apply_signed() -> None:
    hub = mailbox()
    commit(hub, BASE)
    wider = plan(replace(BASE, secrets={"db": sealed_to("w1", "w2", "@ada")}), hub.applied())
    with pytest.raises(SignatureRequired):
        hub.commit(sign(candidate_of(wider), CAROL_SIGNER))
    same = plan(replace(BASE, secrets={"db": sealed_to("w1", "@ada")}), hub.applied())
    assert hub.commit(sign(candidate_of(same), CAROL_SIGNER)).number == 2


# ---- what no signature makes right


def refused(change: dict[str, str], contents: dict[str, bytes]) -> str:
    """A candidate whose entry of service.web says this of its secrets."""
    hub = mailbox()
    start = fleet({"web": service()}, {})
    commit(hub, start)
    now = hub.applied()
    assert now is not None
    web = Service((Component("main", digest_pinned("web:1"), secrets=("db",)),), node="w1")
    content = canonical.encode(web)
    entry = Entry(canonical.digest(content), "w1", 1, *serving_metadata(web), secrets=change)
    table = Table({**now.table.entries, "service.web": entry}, now.table.tombstones)
    compiled = compile_revision(table, now, {entry.digest: content, **contents})
    with pytest.raises(HoldfastError) as caught:
        hub.commit(sign(compiled.candidate))
    return f"{caught.value.code}: {caught.value.message}"


DIGEST = canonical.digest(W1)


def test_a_table_gives_a_service_exactly_the_secrets_it_names() -> None:
    assert "other secrets than it names" in refused({}, {})
    assert "other secrets than it names" in refused({"db": DIGEST, "more": DIGEST}, {DIGEST: W1})


def test_a_secret_that_came_along_is_there_and_is_sealed() -> None:
    assert refused({"db": DIGEST}, {}).startswith("blob_missing: ")
    for content in (b"hunter2", W1[:50], b"x" * 70_000):
        digest = canonical.digest(content)
        assert refused({"db": digest}, {digest: content}).startswith("revision_unsound: ")


def test_armour_is_not_a_second_spelling() -> None:
    """The digest names what is sealed; written differently it could pass for another secret."""
    from holdfast.model import sealed

    armoured = sealed.armoured(W1)
    assert refused({"db": canonical.digest(armoured)}, {canonical.digest(armoured): armoured}).startswith(
        "revision_unsound: "
    )


def test_two_secrets_in_one_place_are_unsound() -> None:
    twice = Component("main", digest_pinned("a"), secrets=("db", SecretRef("db", file="db")))
    web = Service((twice,), node="w1")
    entry = Entry("0" * 64, "w1", 1, *serving_metadata(web), secrets={"db": DIGEST})
    with pytest.raises(Unsound, match="uses the file db twice"):
        check_service("service.web", entry, web, {DIGEST: W1})


# ---- how a component sees them


def test_a_component_sees_files_and_variables_in_an_order_of_its_own() -> None:
    written = ("b", SecretRef("a", env="A"), SecretRef("a", file="a.pem"))
    one = Component("main", "x", secrets=written)
    other = Component("main", "x", secrets=written[::-1])
    seen = uses_of(one, {"a": "1", "b": "2"})
    assert [(use.name, use.digest, use.file, use.env) for use in seen] == [
        ("a", "1", "", "A"),
        ("a", "1", "a.pem", ""),
        ("b", "2", "b", ""),
    ]
    assert seen == uses_of(other, {"a": "1", "b": "2"})


# ---- agents that cannot read a purpose


def test_a_new_secret_is_not_sent_to_an_agent_that_would_take_its_purpose_for_the_value() -> None:
    web = service("db")
    wanted = fleet({"web": web}, {"db": W1})
    with pytest.raises(Conflict) as caught:
        plan(wanted, None, Inputs(uses=Uses(formats={"w1": formats.BOUND_SECRETS - 1})))
    assert caught.value.code == "agent_too_old" and "upgrade the agent on w1" in caught.value.remedy
    others: tuple[dict[str, int], ...] = ({}, {"w1": formats.NEWEST}, {"w2": 0})
    for known in others:
        assert plan(wanted, None, Inputs(uses=Uses(formats=known))).candidate is not None
    again = replace(wanted, services={"web": replace(web, protect=True)})
    assert plan(again, applied(wanted), Inputs(uses=Uses(formats={"w1": 0}))).candidate, "what is applied already stays"


def test_a_rollback_does_not_send_such_a_secret_either() -> None:
    hub = mailbox()
    commit(hub, fleet({"web": service("db")}, {"db": W1}))
    then = hub.applied()
    commit(hub, fleet({"web": service()}, {}))
    now = hub.applied()
    assert then is not None and now is not None
    with pytest.raises(Conflict, match="the agent on w1 is of an older release"):
        plan_rollback(then.table, now, {"w1": formats.BOUND_SECRETS - 1})
    assert plan_rollback(then.table, now, {"w1": formats.NEWEST}).candidate is not None
