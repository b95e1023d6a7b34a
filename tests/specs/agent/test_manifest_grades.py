"""What a node makes of one revision, as a pure question: shape, protection, policies, who must have signed."""

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.acceptance import approvals
from holdfast.agent.acceptance.manifest import Followed, read_manifest
from holdfast.agent.acceptance.manifest_grades import NoGround, judge
from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.fleet import AlertTarget, Component, FleetDocument, Node, Service, Volume
from holdfast.model.manifest import NodeManifest
from holdfast.model.move import Move
from holdfast.model.revision import Entry, Tombstone
from holdfast.model.rules import NEWEST, Rules
from holdfast.model.trust import Trust
from holdfast.planning.service_entry import serving_metadata
from tests.fleets.build import ALICE, digest_pinned, operator_signer, small_fleet
from tests.fleets.sealing import sealed_to

CAROL, _ = operator_signer("carol", "apply")
TRUST = Trust((ALICE, CAROL))
CONTENTS: dict[str, bytes] = {}
SEALED = sealed_to("w1")


def put(value: object) -> str:
    content = value if isinstance(value, bytes) else canonical.encode(value)
    CONTENTS[canonical.digest(content)] = content
    return canonical.digest(content)


def service(tag: str, protect: bool = False) -> Entry:
    content = Service((Component("main", digest_pinned(tag)),), protect=protect)
    return Entry(put(content), "w1", 1, *serving_metadata(content))


FLEET_ID = "f" * 64
SETTINGS = put(FleetDocument(small_fleet().settings))
OWN = Entry(put(Node("w1", ("worker",))))
BOUND = Entry(put(b"permit();"), applies_to=("service.web",))
EVERYWHERE = Entry(put(b"forbid();"), applies_to=("fleet",))
WHOLE = NodeManifest(
    FLEET_ID,
    "w1",
    SETTINGS,
    OWN,
    {"service.db": service("db", protect=True), "service.web": service("web")},
    {"policy.all": EVERYWHERE, "policy.web": BOUND},
)


def key(operator: object) -> str:
    return " ".join(str(operator.key).split()[:2])  # type: ignore[attr-defined]


def judged(after: NodeManifest, *signers: object, before: Followed | None = None, rules: Rules = NEWEST) -> Followed:
    standing = before or Followed(WHOLE, WHOLE)
    return judge(standing, after, [((key(one),), TRUST) for one in signers], CONTENTS, 2, 0.0, rules)


def without(*addresses: str) -> NodeManifest:
    return replace(
        WHOLE,
        services={a: e for a, e in WHOLE.services.items() if a not in addresses},
        policies={a: e for a, e in WHOLE.policies.items() if a not in addresses},
    )


def test_a_policy_leaves_with_the_last_service_it_bound_here() -> None:
    """Undeploying a service takes grade apply, also where a policy was for that service alone."""
    after = judged(without("service.web", "policy.web"), CAROL)
    assert after.parked == {} and after.in_force == without("service.web", "policy.web")
    assert set(after.stones) == {"service.web"}


@pytest.mark.parametrize("gone", [("policy.web",), ("policy.all",), ("policy.all", "service.web", "service.db")])
def test_a_policy_that_still_binds_something_stays(gone: tuple[str, ...]) -> None:
    """Removing a policy widens what is allowed: grade destroy."""
    after = judged(without(*gone), CAROL)
    assert after.in_force is not None
    assert gone[0] in after.parked and gone[0] in after.in_force.policies and not after.in_force.more
    assert judged(without(*gone), ALICE).parked == {}


def test_a_policy_stays_with_a_service_that_is_parked() -> None:
    bound = replace(WHOLE, policies={"policy.db": replace(BOUND, applies_to=("service.db",))})
    after = judged(replace(bound, services={}, policies={}), CAROL, before=Followed(bound, bound))
    assert set(after.parked) == {"service.db", "policy.db"}


def test_everybody_who_may_have_brought_it_must_have_the_grade() -> None:
    gone = without("service.db")
    assert judged(gone, ALICE, ALICE).parked == {}
    for signers in ((ALICE, CAROL), (CAROL, ALICE)):
        assert set(judged(gone, *signers).parked) == {"service.db"}
    assert set(judge(Followed(WHOLE, WHOLE), gone, [((), TRUST)], CONTENTS, 2, 0.0).parked) == {"service.db"}


def test_protection_is_read_from_the_content_it_was_declared_in() -> None:
    """C-08: an entry that says otherwise was never followed, but even if it were."""
    lied = replace(
        WHOLE, services=WHOLE.services | {"service.db": replace(WHOLE.services["service.db"], protect=False)}
    )
    after = judged(without("service.db"), CAROL, before=Followed(lied, lied))
    assert set(after.parked) == {"service.db"} and "protected" in after.parked["service.db"].reason


def test_without_ground_nothing_is_followed() -> None:
    with pytest.raises(NoGround, match=r"node\.w1"):
        judged(WHOLE, CAROL, before=Followed())
    assert judged(WHOLE, ALICE, before=Followed()).in_force == WHOLE


def test_every_kind_that_can_be_removed_may_be_remembered() -> None:
    """planning/manifests.py puts tombstones of any kind into a manifest; they are nobody's permission."""
    kinds = ("node", "service", "policy", "storage", "alert")
    whole = replace(WHOLE, retired={f"{kind}.x": Tombstone(SETTINGS, 2) for kind in kinds})
    assert read_manifest(canonical.encode(whole), FLEET_ID, "w1") == whole
    for address in ("fleet", "trust", "service.", "service.X", "zz.x", "service.x\n"):
        with pytest.raises(Corrupt):
            read_manifest(canonical.encode(replace(WHOLE, retired={address: Tombstone(SETTINGS, 2)})), FLEET_ID, "w1")


def target(name: str, number: int, nodes: tuple[str, ...] = ("w1",)) -> Entry:
    content = AlertTarget(name, secret="url", nodes=nodes, after=f"{number}h")
    return Entry(put(content), secrets={"url": put(SEALED)}, applies_to=tuple(f"node.{node}" for node in nodes))


@pytest.mark.parametrize("address", ["widget.a", "service.web", "policy.a", "storage.a", "node.w2", "fleet", ""])
def test_a_resource_of_a_kind_that_this_release_does_not_put_there_is_refused(address: str) -> None:
    """A newer hub, or a hostile one: what cannot be judged is not followed."""
    with pytest.raises(Corrupt) as caught:
        read_manifest(canonical.encode(replace(WHOLE, more={address: OWN})), FLEET_ID, "w1")
    assert caught.value.code == "manifest_misshapen"


def test_a_target_of_another_node_is_refused() -> None:
    for entry in (OWN, target("a", 1, nodes=("w2",))):
        with pytest.raises(Corrupt, match="not for this node to send"):
            read_manifest(canonical.encode(replace(WHOLE, more={"alert.a": entry})), FLEET_ID, "w1")


def test_x17_a_node_follows_its_alert_targets_only_as_grade_destroy_signed_them() -> None:
    """A kind without a field of its own: what is parked stays as it was."""
    first, second, changed = target("a", 1), target("b", 1), target("b", 2)
    before = replace(WHOLE, more={"alert.a": first, "alert.b": second})
    assert read_manifest(canonical.encode(before), FLEET_ID, "w1") == before
    with pytest.raises(Corrupt):
        read_manifest(canonical.encode(replace(WHOLE, more={"alert.A": first})), FLEET_ID, "w1")

    wanted = replace(WHOLE, more={"alert.b": changed, "alert.c": target("c", 1)})
    for rules in ("first", NEWEST):
        followed = judged(wanted, CAROL, before=Followed(before, before), rules=rules)
        assert set(followed.parked) == {"alert.a", "alert.b", "alert.c"}, "removed, changed, added"
        assert canonical.encode(followed.in_force) == canonical.encode(before)
        assert judged(wanted, ALICE, before=Followed(before, before), rules=rules).in_force == wanted
    misnamed = replace(WHOLE, more={"alert.c": target("d", 1)})
    assert set(judged(misnamed, ALICE).parked) == {"alert.c"}, "no grade allows another name than its address"
    assert judged(WHOLE, ALICE, before=Followed(before, before)).in_force == WHOLE


@pytest.mark.parametrize("signer", [CAROL, ALICE])
def test_a_mount_from_inside_another_is_parked_whoever_signed_it_s10(signer: object) -> None:
    """The way out of a service's data: a link put into the outer one, followed when the inner one is mounted."""
    nested = ("/srv/web:/all", Volume("files", "/data", "none"))
    content = Service((Component("main", digest_pinned("web"), volumes=nested),))
    changed = replace(WHOLE.services["service.web"], digest=put(content))
    after = judged(replace(WHOLE, services=WHOLE.services | {"service.web": changed}), signer)
    assert "from inside /srv/web" in after.parked["service.web"].reason


# ---- approvals of owners


def owned(by: str, tag: str = "web") -> Entry:
    content = Service((Component("main", digest_pinned(tag), volumes=(Volume("book", "/data", "none", owner=by),)),))
    return Entry(put(content), "w1", 1, *serving_metadata(content))


def approved(before: Entry, after: Entry, signer: object, contents: dict[str, bytes]) -> tuple[str, ...]:
    old, new = (replace(WHOLE, services={**WHOLE.services, "service.web": one}) for one in (before, after))
    witness = [((key(signer),), TRUST)]
    found = approvals.noted(Followed(old, old, approved={}), Followed(new, new), witness, contents).approved
    assert found is not None
    return found.get("service.web", ())


def test_who_changes_an_owner_with_grade_destroy_approves_it_and_the_one_before() -> None:
    assert approved(owned("1:1"), owned("2:2"), ALICE, CONTENTS) == ("owner=1:1 book", "owner=2:2 book")
    assert approved(owned("1:1"), owned("2:2"), CAROL, CONTENTS) == ()


def test_a_revision_that_does_not_change_a_service_approves_nothing_of_it_and_reads_nothing_of_it() -> None:
    """The content of a service that is as it was may be damaged on the node's disk: the revision is about others."""
    assert approved(owned("1:1"), owned("1:1"), ALICE, CONTENTS) == ()
    assert approved(owned("1:1"), owned("1:1"), ALICE, {}) == ()


def test_what_cannot_be_read_any_more_approves_no_way_back() -> None:
    lost = owned("1:1")
    kept = {digest: content for digest, content in CONTENTS.items() if digest != lost.digest}
    assert approved(lost, owned("2:2"), ALICE, kept) == ("owner=2:2 book",)


# ---- data that this node hands over


def handing(name: str = "service.web", **changed: Any) -> NodeManifest:
    there = replace(WHOLE.services[name], node="w2", epoch=2, move=Move("w1"))
    return replace(without(name), handover={name: replace(there, **changed)})


def test_data_is_handed_over_for_signers_who_may_place_the_service_there() -> None:
    own, _ = operator_signer("own", "apply", ("service.web",))
    tied, _ = operator_signer("tied", "apply", ("service.web", "node:w1"))
    other, _ = operator_signer("other", "apply", ("service.db",))
    trust = Trust((ALICE, CAROL, own, tied, other))

    def followed(after: NodeManifest, signer: object) -> dict[str, Entry]:
        found = judge(Followed(WHOLE, WHOLE), after, [((key(signer),), trust)], CONTENTS, 2, 0.0).in_force
        assert found is not None
        return found.handover

    for signer in (CAROL, own):
        assert set(followed(handing(), signer)) == {"service.web"}
    assert followed(handing(), tied) == {}, "not at w2"
    assert followed(handing(), other) == {}, "another service"
    assert followed(handing("service.db"), CAROL) == {}, "it is protected, so it stays, and is not handed over"
    assert set(followed(handing("service.db"), ALICE)) == {"service.db"}


def test_a_handover_that_was_not_followed_is_not_followed_by_a_revision_that_does_not_touch_it() -> None:
    tied, _ = operator_signer("tied", "apply", ("service.web", "node:w1"))
    trust = Trust((ALICE, CAROL, tied))
    first = judge(Followed(WHOLE, WHOLE), handing(), [((key(tied),), trust)], CONTENTS, 2, 0.0)
    again = judge(first, handing(), [((key(CAROL),), trust)], CONTENTS, 3, 0.0)
    assert again.in_force is not None and again.in_force.handover == {}


@pytest.mark.parametrize(
    "changed", [{"node": "w1"}, {"move": UNSET}, {"move": Move("w2")}, {"move": Move("w3", back=True)}]
)
def test_what_this_node_does_not_hand_over_is_not_in_that_list(changed: dict[str, Any]) -> None:
    read_manifest(canonical.encode(handing()), FLEET_ID, "w1")
    with pytest.raises(Corrupt, match="hands over"):
        read_manifest(canonical.encode(handing(**changed)), FLEET_ID, "w1")
