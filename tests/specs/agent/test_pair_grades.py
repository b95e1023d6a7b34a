"""Which pairs a node follows: within what it provides itself, and as far as the scope of the signers goes."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.acceptance.manifest import Followed, decode_manifest, read_manifest
from holdfast.agent.acceptance.manifest_grades import differing, judge
from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet, Operator
from holdfast.model.manifest import NodeManifest
from holdfast.model.move import Peer
from holdfast.model.need import Need, Pair
from holdfast.model.trust import Trust
from holdfast.planning.manifests import compile_manifests
from tests.fleets.build import ALICE, operator_signer
from tests.fleets.needing import DB, NEED, TOKENS, applied, needing, needing_fleet

CAROL, _ = operator_signer("carol", "apply")
WEB, _ = operator_signer("wendy", "apply", ("service.web",))
ON_W1, _ = operator_signer("walter", "apply", ("service.web", "node:w1"))
SHOP, _ = operator_signer("sally", "apply", ("service.shop",))
TRUST = Trust((ALICE, CAROL, WEB, ON_W1, SHOP))

Contents = dict[str, bytes]


def at(node: str, now: Applied) -> NodeManifest:
    return decode_manifest(compile_manifests("f" * 64, now.table)[node])


def followed(node: str, before: Applied, after: Applied, *signers: Operator, **lies: Any) -> Followed:
    """What the node makes of the step from one revision to the other; `lies` replace fields of the second manifest."""
    old, new = at(node, before), replace(at(node, after), **lies)
    keys = [((" ".join(one.key.split()[:2]),), TRUST) for one in signers]
    return judge(Followed(old, old), new, keys, _Contents(before, after), 2, 0.0)


class _Contents(dict[str, bytes]):
    def __init__(self, *known: Applied) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, digest: str) -> bytes:
        return next(one.contents[digest] for one in reversed(self._known) if digest in one.contents)


def no_need(**more: Any) -> Fleet:
    return needing_fleet({"web": needing(), "shop": needing(node="w2")}, **more)


def with_need(*needs: Need, node: str = "w1", **more: Any) -> Fleet:
    return needing_fleet({"web": needing(*needs, node=node), "shop": needing(node="w2")}, **more)


WITHOUT, WITH = applied(no_need()), applied(no_need(), with_need(NEED))
MOVED = applied(no_need(), with_need(NEED), with_need(NEED, node="w2"))


@pytest.mark.parametrize("node", ["w1", "p1"])
def test_a_new_pair_within_what_is_provided_is_followed_with_grade_apply(node: str) -> None:
    for signer in (CAROL, WEB):
        found = followed(node, WITHOUT, WITH, signer)
        assert found.parked == {} and found.in_force == at(node, WITH)
        assert len(at(node, WITH).pairs) == 1 == len(at(node, WITH).peers)


@pytest.mark.parametrize("node", ["w1", "p1"])
def test_it_comes_and_goes_with_those_who_may_sign_for_the_service_only(node: str) -> None:
    for before, after in ((WITHOUT, WITH), (WITH, WITHOUT)):
        found = followed(node, before, after, SHOP)
        assert found.in_force is not None and found.parked
        assert found.in_force.pairs == at(node, before).pairs and found.in_force.peers == at(node, before).peers
        assert found.in_force.issuers == at(node, before).issuers
        assert followed(node, before, after, WEB).in_force == at(node, after)


def test_a_service_may_ask_from_another_node_only_if_its_signers_may_place_it_there() -> None:
    assert followed("p1", WITH, MOVED, WEB).in_force == at("p1", MOVED)
    found = followed("p1", WITH, MOVED, ON_W1)
    assert found.in_force is not None and set(found.parked) >= {"pair.web.db"}
    assert found.in_force.pairs == at("p1", WITH).pairs


def test_a_provider_gives_nothing_beyond_what_it_provides_whoever_signed() -> None:
    (pair,) = at("p1", WITH).pairs
    other = {"host": "x", "port": "1"}
    for lie in (replace(pair, service="shop"), replace(pair, type="tokens"), replace(pair, facts=other)):
        found = followed("p1", WITHOUT, WITH, ALICE, pairs=(lie,))
        assert found.in_force is not None and found.in_force.pairs == ()
        assert set(found.parked) == {f"pair.{lie.service}.db"}


def test_a_provider_that_is_not_signed_for_with_grade_destroy_is_parked_with_its_pairs() -> None:
    before = applied(needing_fleet({"web": needing()}, ()))
    after = applied(needing_fleet({"web": needing()}, ()), needing_fleet())
    found = followed("p1", before, after, CAROL)
    assert found.in_force is not None and not found.in_force.more and not found.in_force.pairs
    assert set(found.parked) == {"provides.p1.postgres", "pair.web.db", "peer.w1"} and not found.in_force.peers
    assert found.parked["provides.p1.postgres"].reason.startswith("lets the node give credentials")
    assert followed("p1", before, after, ALICE).in_force == at("p1", after)


def test_a_need_that_is_parked_brings_no_pair_and_no_key() -> None:
    service = at("w1", WITH).services["service.web"]
    lie = {"service.web": replace(service, wants={"db": replace(service.wants["db"], params={"a": "b"})})}
    found = followed("w1", WITHOUT, WITH, CAROL, services=lie)
    assert found.in_force is not None and "service.web" in found.parked
    assert not (found.in_force.pairs or found.in_force.peers or found.in_force.issuers)


def test_the_key_of_a_known_peer_needs_the_grade_of_a_node_key() -> None:
    for node, other in (("w1", "p1"), ("p1", "w1")):
        known = at(node, WITH).peers[other]
        for changed in (replace(known, key="ssh-ed25519 AAAA"), replace(known, address="x")):
            found = followed(node, WITH, WITH, CAROL, peers={other: changed})
            assert found.in_force is not None
            assert found.in_force.peers[other] == (known if changed.key != known.key else changed)
            assert followed(node, WITH, WITH, WEB, peers={other: changed}).in_force == at(node, WITH)
            assert followed(node, WITH, WITH, ALICE, peers={other: changed}).parked == {}


def test_a_peer_that_nothing_leads_to_needs_grade_destroy() -> None:
    stranger = {"w2": Peer("ssh-ed25519 AAAA", "100.64.0.2")}
    found = followed("w1", WITHOUT, WITHOUT, CAROL, peers=stranger)
    assert found.in_force is not None and not found.in_force.peers and set(found.parked) == {"peer.w2"}


def test_what_is_parked_of_pairs_differs_until_it_is_followed() -> None:
    found = followed("p1", WITH, MOVED, SHOP)
    assert found.in_force is not None
    parked = ["pair.web.db", "peer.w1", "peer.w2"]
    assert sorted(found.parked) == sorted(differing(at("p1", MOVED), found.in_force)) == parked


# ---- the form


SELF = applied(needing_fleet({"shop": needing(Need("token", "tokens"), node="p1"), "web": needing(NEED)}, (DB, TOKENS)))
SHAPES: dict[str, tuple[str, Callable[[NodeManifest], NodeManifest]]] = {
    "no pair of an own service": ("w1", lambda one: replace(one, pairs=())),
    "another provider": ("w1", lambda one: _with(one, provider="p2")),
    "another epoch": ("w1", lambda one: _with(one, epoch=9)),
    "a pair of two others": ("p1", lambda one: _with(one, provider="p2")),
    "a path as a service": ("p1", lambda one: _with(one, service="../web")),
    "a path as a need": ("p1", lambda one: _with(one, need="a/b")),
    "a path as a node": ("p1", lambda one: _with(one, consumer="..")),
    "unsorted": ("p1", lambda one: replace(one, pairs=tuple(reversed(one.pairs)))),
    "twice": ("p1", lambda one: replace(one, pairs=(*one.pairs, one.pairs[-1]))),
    "provided by another node": (
        "p1",
        lambda one: replace(one, more={"provides.p1.postgres": replace(one.more["provides.p1.postgres"], node="p2")}),
    ),
    "provided under one name": ("p1", lambda one: replace(one, more={"provides.p1": one.more["provides.p1.postgres"]})),
}


def _with(manifest: NodeManifest, **fields: Any) -> NodeManifest:
    """The last pair, of service.web, in another way."""
    return replace(manifest, pairs=(*manifest.pairs[:-1], replace(manifest.pairs[-1], **fields)))


@pytest.mark.parametrize("case", SHAPES)
def test_a_manifest_with_pairs_that_holdfast_does_not_make_is_refused(case: str) -> None:
    node, lie = SHAPES[case]
    honest = at(node, SELF)
    assert read_manifest(canonical.encode(honest), "f" * 64, node) == honest
    with pytest.raises(Corrupt) as refused:
        read_manifest(canonical.encode(lie(honest)), "f" * 64, node)
    assert refused.value.code == "manifest_misshapen"


def test_a_node_follows_the_pairs_of_its_own_services_with_itself() -> None:
    before = applied(needing_fleet({"shop": needing(node="p1")}, (DB, TOKENS)))
    found = followed("p1", before, SELF, ALICE)
    assert found.parked == {} and found.in_force == at("p1", SELF)
    assert [(one.service, one.consumer) for one in at("p1", SELF).pairs] == [("shop", "p1"), ("web", "w1")]
    assert isinstance(at("p1", SELF).pairs[0], Pair)
