"""The certificates of routes over months: made, renewed, seen, told; real certificates, a clock that is turned.

M-84: no certificate, no route. M-87: internal ones by the worker, public ones by the edge. M-88: 90 days, renewed at
30, told at 25, what is shown re-checked at 21. I-16, I-17, I-18. D-02: it is the certificate step that fails.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from holdfast.adapters.certificate_store.files import FileShelf
from holdfast.adapters.certificate_store.memory import MemoryShelf
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.agent.findings import Findings
from holdfast.agent.traffic.certificates.route_certificates import RouteCertificates
from holdfast.errors import Failed, HoldfastError, Limited, TryLater
from holdfast.model.certificate import DAY_S
from holdfast.model.fleet import Acme, Role, Settings
from holdfast.ports.certificate_store import CertificateStore, StoredCertificate
from holdfast.ports.proxy import Servable
from holdfast.trust import certificates as rules
from tests.fleets.chains import Authority, pem

START_S = 1_760_000_000.0
ZONE, PUBLIC = "svc.lab.test", "example.test"
FLEET = Settings("lab", internal_zone=ZONE, public_domains=(PUBLIC,))
NAMES = (f"web.web.{ZONE}", f"web.{ZONE}")
NAME, HOST = NAMES[0], f"www.{PUBLIC}"
ACME = Acme("https://ca.example.test/directory", terms_agreed=True)
GONE = TryLater("the authority cannot be reached", remedy="wait", code="acme_unreachable")
NO = Failed("the authority refused: dns: no such host", remedy="mend the name", code="acme_refused")
FULL_DISK = Failed("no space is left", remedy="free space", code="no_space")


class FakeCa:
    """Signs what it is asked for with real keys, or fails as it is told. `made` changes what comes back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._authority = Authority(START_S)
        self.trouble: HoldfastError | None = None
        self.made: Callable[[Authority], tuple[bytes, bytes]] | None = None
        self.orders = 0

    async def order(self, acme: Acme, names: Any, answer: Any, at_most_s: float) -> tuple[bytes, bytes]:
        self.orders += 1
        await answer({"token": "authorization"})
        await asyncio.sleep(0)
        await answer({})
        if self.trouble is not None:
            raise self.trouble
        if self.made is not None:
            return self.made(self._authority)
        leaf, private = self._authority.leaf(tuple(names), made_s=self._now_s())
        return pem(leaf) + pem(self._authority.intermediate), private


class Node:
    def __init__(self, roles: tuple[Role, ...] = ("worker", "edge"), shelf: CertificateStore | None = None) -> None:
        self.now = START_S
        self.roles = roles
        self.disk = MemoryDisk()
        self.own = X509Certificates("/agent", self.disk)
        self.shelf: CertificateStore = shelf if shelf is not None else MemoryShelf()
        self.ca = FakeCa(self.now_s)
        self.findings = Findings(self.now_s)
        self.said: list[tuple[str, dict[str, object]]] = []
        self.answered: list[Mapping[str, str]] = []
        self.begin()

    def now_s(self) -> float:
        return self.now

    def begin(self, fleet: Settings = FLEET) -> None:
        """Again: as after a restart of the agent."""
        self.routes = RouteCertificates(self.own, self.shelf, self.ca, self.now_s, self.findings, self.say)
        self.follow(fleet)

    def follow(self, fleet: Settings) -> None:
        self.own.issuer("n1", rules.constraints("n1", self.roles, fleet), self.now)
        self.routes.follow(fleet)

    def say(self, event: str, fields: dict[str, object]) -> None:
        self.said.append((event, fields))

    async def answer(self, tokens: Mapping[str, str]) -> None:
        self.answered.append(tokens)

    def public(self, acme: Acme | UnsetType = ACME, host: str = HOST) -> Servable:
        return asyncio.run(self.routes.public(host, acme, self.answer, 5.0))

    def pass_days(self, days: float) -> None:
        self.now += days * DAY_S

    def told(self) -> list[str]:
        self.routes.watch()
        return [found.code for found in self.findings.all()]

    def seen(self, proof: Servable, name: str = HOST) -> bool:
        return self.routes.seen(name, der(proof))


def der(proof: Servable) -> bytes:
    from holdfast.adapters.certificates.x509 import der_of

    return der_of(proof.chain)


# ---- made and kept


def test_an_internal_certificate_is_made_once_and_kept_over_restarts() -> None:
    node = Node()
    first = node.routes.internal(NAMES)
    assert node.routes.internal(NAMES) == first
    node.begin()
    assert node.routes.internal(NAMES) == first
    state = node.routes.state(NAME)
    assert state is not None and (state.names, state.authority, state.chain) == (NAMES, "own", 2)
    assert state.digest == first.digest and state.expires_s == START_S + 90 * DAY_S and state.trouble == ""
    assert node.routes.state(HOST) is None


def test_two_certificates_for_a_public_service() -> None:
    """M-87: the worker's for the internal name, the edge's for the public one; neither carries the other's (M-82)."""
    node = Node()
    internal, public = node.routes.internal(NAMES), node.public()
    assert node.own.facts(internal.chain).names == NAMES and node.own.facts(public.chain).names == (HOST,)
    assert node.ca.orders == 1 and node.answered == [{"token": "authorization"}, {}]
    state = node.routes.state(HOST)
    assert state is not None and state.authority == "acme"
    assert node.public() == public and node.ca.orders == 1, "kept and good: at once"


def test_public_names_without_an_authority_come_from_the_edges_own_issuer() -> None:
    node = Node(("edge",))
    proof = node.public(UNSET)
    state = node.routes.state(HOST)
    assert state is not None and state.authority == "own" and node.ca.orders == 0
    assert node.routes.anchor(HOST) and proof.chain.endswith(node.routes.anchor(HOST))


def test_only_the_domains_of_the_authority_are_ordered_there() -> None:
    node = Node()
    only = Acme(ACME.directory, terms_agreed=True, domains=(f"shop.{PUBLIC}",))
    node.public(only)
    assert node.ca.orders == 0
    node.public(only, f"a.shop.{PUBLIC}")
    assert node.ca.orders == 1


def test_another_authority_takes_over_at_once_and_the_old_one_serves_until_then() -> None:
    node = Node()
    own = node.public(UNSET)
    node.ca.trouble = GONE
    assert node.public(ACME) == own
    node.ca.trouble = None
    node.now += 10
    assert node.public(ACME) != own
    node.now += 10
    back = node.public(UNSET)
    state = node.routes.state(HOST)
    assert state is not None and state.authority == "own" and back.digest == state.digest


def test_other_names_make_another_certificate() -> None:
    node = Node()
    first = node.routes.internal(NAMES)
    second = node.routes.internal((NAME,))
    assert second != first and node.own.facts(second.chain).names == (NAME,)


def test_a_new_issuing_certificate_makes_new_leaves() -> None:
    node = Node()
    first = node.routes.internal(NAMES)
    node.follow(Settings("lab", internal_zone=ZONE, public_domains=(PUBLIC, "more.test")))
    assert NAME in node.routes.due()
    second = node.routes.internal(NAMES)
    assert second != first and node.routes.internal(NAMES) == second


# ---- whose names


@pytest.mark.parametrize(
    "names",
    [(HOST,), (NAME, HOST), (f"x{ZONE}",), ("*." + ZONE,), (), ("10.0.0.1",), ("",), (NAME + ".evil",)],
)
def test_no_internal_certificate_for_other_names(names: tuple[str, ...]) -> None:
    """M-26, I-17: although this node, being an edge, too, could sign public ones."""
    node = Node()
    with pytest.raises(Failed) as refused:
        node.routes.internal(names)
    assert refused.value.code == "certificate_failed" and node.shelf.names() == ()


@pytest.mark.parametrize("acme", [ACME, UNSET])
@pytest.mark.parametrize("host", [NAME, f"evil{PUBLIC}", f"x{PUBLIC}", f"{HOST}.evil", f"*.{PUBLIC}", "", "1.2.3.4"])
def test_no_public_certificate_for_other_names(host: str, acme: Acme | UnsetType) -> None:
    """M-24, M-82, I-17: and no authority is even asked."""
    node = Node()
    with pytest.raises(Failed):
        node.public(acme, host)
    assert node.ca.orders == 0 and node.shelf.names() == () and node.answered == []


def test_a_worker_signs_no_public_name_and_an_edge_no_internal_one() -> None:
    """M-26: by the bounds of its issuing certificate."""
    with pytest.raises(Failed):
        Node(("worker",)).public(UNSET)
    with pytest.raises(Failed):
        Node(("edge",)).routes.internal(NAMES)


def test_before_a_revision_nothing_is_made() -> None:
    node = Node()
    node.routes = RouteCertificates(node.own, node.shelf, node.ca, node.now_s, node.findings, node.say)
    with pytest.raises(Failed, match="has not accepted a revision yet"):
        node.routes.internal(NAMES)
    with pytest.raises(Failed, match="has not accepted a revision yet"):
        node.public()


# ---- bad ones never get out


Made = Callable[[Authority], tuple[bytes, bytes]]


def sent(*, names: tuple[str, ...] = (HOST,), made_s: float = START_S, alone: bool = False) -> Made:
    def make(authority: Authority) -> tuple[bytes, bytes]:
        leaf, private = authority.leaf(names, made_s=made_s)
        return pem(leaf) + (b"" if alone else pem(authority.intermediate)), private

    return make


def wrong_key(authority: Authority) -> tuple[bytes, bytes]:
    return sent()(authority)[0], sent()(authority)[1]


BAD: dict[str, Made] = {
    "expired": sent(made_s=START_S - 91 * DAY_S),
    "not yet valid": sent(made_s=START_S + 900 * DAY_S),
    "leaf alone": sent(alone=True),
    "wrong name": sent(names=(f"shop.{PUBLIC}",)),
    "an internal name besides": sent(names=(HOST, NAME)),
    "a wildcard": sent(names=(f"*.{PUBLIC}",)),
    "wrong key": wrong_key,
    "garbage": lambda authority: (b"garbage", b"garbage"),
    "half a file": lambda authority: (sent()(authority)[0][:900], sent()(authority)[1]),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_certificate_of_an_authority_never_gets_out(kind: str) -> None:
    """I-16, M-84: no proof, nothing kept, and it is told."""
    node = Node()
    node.ca.made = BAD[kind]
    with pytest.raises(HoldfastError) as refused:
        node.public()
    assert refused.value.code == "certificate_failed" and refused.value.remedy
    assert node.shelf.names() == ()
    assert [found.code for found in node.findings.all()] == ["certificate_failed"]
    assert silent(node)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_renewal_leaves_the_good_one_in_place(kind: str) -> None:
    node = Node()
    good = node.public()
    node.pass_days(61)
    node.ca.made = BAD[kind]
    assert node.public() == good
    assert node.shelf.kept(HOST) == StoredCertificate(good.chain, good.private)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_certificate_on_the_shelf_is_replaced(kind: str) -> None:
    """Put there by somebody else, left by a crash, damaged by a disk."""
    node = Node()
    node.shelf.keep(HOST, StoredCertificate(*BAD[kind](Authority(START_S))))
    assert node.own.facts(node.public().chain).names == (HOST,) and node.ca.orders == 1


# ---- renewed


def test_a_certificate_is_renewed_with_thirty_days_left() -> None:
    """M-88: workers and edges by the same window."""
    node = Node()
    internal, public = node.routes.internal(NAMES), node.public()
    node.pass_days(59.9)
    assert node.routes.due() == () and node.told() == []
    assert (node.routes.internal(NAMES), node.public()) == (internal, public)
    node.pass_days(0.2)
    assert node.routes.due() == (NAME, HOST)
    assert node.routes.internal(NAMES) != internal and node.public() != public
    assert node.routes.due() == () and node.told() == []


def test_a_renewal_that_fails_keeps_serving_and_climbs_the_ladder() -> None:
    """M-88: nothing is told before 25 days, then expiry, then what clients see; all of it is over after a renewal."""
    node = Node()
    first = node.public()
    assert node.seen(first)
    node.ca.trouble = GONE
    node.pass_days(61)
    assert node.public() == first
    assert node.told() == ["certificate_failed"]
    state = node.routes.state(HOST)
    assert state is not None and state.trouble == GONE.message
    node.pass_days(4.5)
    assert node.public() == first and node.told() == ["certificate_expiring", "certificate_failed"]
    node.pass_days(4)
    assert node.public() == first
    assert node.told() == ["certificate_expiring", "certificate_failed", "certificate_stale"]
    node.ca.trouble = None
    node.pass_days(1)
    second = node.public()
    assert second != first
    assert node.told() == ["certificate_stale"], "clients are still shown the old one"
    assert not node.seen(first)
    assert node.seen(second) and node.told() == []


def test_a_certificate_that_expired_is_not_given_any_more() -> None:
    """I-16: rather no route than one that nobody believes; and expiry is told."""
    node = Node()
    node.public()
    node.ca.trouble = GONE
    node.pass_days(91)
    with pytest.raises(TryLater):
        node.public()
    assert "certificate_expiring" in node.told()
    assert any("has expired" in found.message for found in node.findings.all())


def test_what_is_told_does_not_change_every_day() -> None:
    """A report is sent anew when it changes; days that pass are no news."""
    node = Node()
    node.public()
    node.ca.trouble = NO
    node.pass_days(66)
    node.public()
    node.told()
    changes = node.findings.changes
    for _ in range(3):
        node.pass_days(1)
        node.public()
        node.told()
    assert node.findings.changes == changes


# ---- when the authority fails


def test_without_a_certificate_there_is_an_error_and_patience() -> None:
    """M-84, D-02. The authority is not asked at every turn of a loop."""
    node = Node()
    node.ca.trouble = NO
    for _ in range(100):
        with pytest.raises(HoldfastError) as refused:
            node.public()
        assert "no such host" in refused.value.message and refused.value.code == "certificate_failed"
        node.now += 1
    assert node.ca.orders == 1
    node.now += 30
    node.ca.trouble = None
    assert node.public()
    assert node.ca.orders == 2 and node.told() == []


def test_a_success_ends_the_patience() -> None:
    node = Node()
    for trouble in (NO, None):
        node.ca.trouble = trouble
        node.now += 121
        if trouble is None:
            node.public()
        else:
            with pytest.raises(Failed):
                node.public()
    node.pass_days(61)
    node.ca.trouble = NO
    node.public()
    node.now += 121
    node.public()
    assert node.ca.orders == 4, "the first pause is the short one again"


def test_an_authority_that_was_away_is_asked_soon() -> None:
    node = Node()
    node.ca.trouble = GONE
    for _ in range(60):
        with pytest.raises(TryLater):
            node.public()
        node.now += 1
    assert node.ca.orders == 5  # after 0, 2, 6, 14 and 30 s


def test_a_proxy_that_takes_no_challenge_is_no_refusal() -> None:
    node = Node()

    async def broken(tokens: Mapping[str, str]) -> None:
        raise Failed("the proxy does not answer", remedy="look at it", code="proxy_down")

    for _ in range(2):
        with pytest.raises(TryLater, match="proxy does not answer"):
            asyncio.run(node.routes.public(HOST, ACME, broken, 5.0))
        node.now += 5
    assert node.ca.orders == 2 and node.public()


def test_an_authority_that_asks_to_wait_is_left_alone() -> None:
    node = Node()
    node.ca.trouble = Limited("too many", remedy="wait", retry_after_s=7200)
    for _ in range(120):
        with pytest.raises(TryLater):
            node.public()
        node.now += 59
    assert node.ca.orders == 1


def test_a_certificate_that_is_over_soon_is_used_and_not_asked_for_at_every_turn() -> None:
    """An authority may sign for less than we renew at; it is good, and no reason to knock without end."""
    node = Node()
    node.ca.made = sent(made_s=START_S - 80 * DAY_S)
    first = node.public()
    for _ in range(50):
        assert node.public() == first
        node.now += 2
    assert node.ca.orders == 1
    node.now += 100
    assert node.public() != first and node.ca.orders == 2


def test_mended_settings_are_tried_at_once() -> None:
    node = Node()
    node.ca.trouble = NO
    with pytest.raises(Failed):
        node.public()
    node.ca.trouble = None
    assert node.public(Acme("https://other.example.test/directory", terms_agreed=True))


def test_one_order_at_a_time_for_one_name() -> None:
    node = Node()

    async def run() -> list[Servable]:
        return await asyncio.gather(*(node.routes.public(HOST, ACME, node.answer, 5.0) for _ in range(8)))

    assert len({proof.digest for proof in asyncio.run(run())}) == 1 and node.ca.orders == 1


def test_a_full_disk_keeps_what_is_good_and_gives_nothing_new() -> None:
    shelf = MemoryShelf()
    node = Node(shelf=shelf)
    good = node.routes.internal(NAMES)
    shelf.trouble = FULL_DISK
    node.pass_days(61)
    assert node.routes.internal(NAMES) == good
    with pytest.raises(Failed, match="no space"):
        node.routes.internal((f"db.db.{ZONE}",))
    assert node.told() == ["certificate_failed", "certificate_failed"]
    shelf.trouble = None
    assert node.routes.internal(NAMES) == good, "a try that failed is not repeated at every turn"
    assert node.routes.digest(NAMES) == good.digest, "nor does anybody have to think that there is no certificate"
    node.pass_days(0.01)
    assert node.routes.digest(NAMES) == "" and node.routes.internal(NAMES) != good


def test_a_file_that_somebody_removed_is_put_back(tmp_path: Path) -> None:
    node = Node(shelf=FileShelf(str(tmp_path), PosixDisk()))
    good = node.routes.internal(NAMES)
    (tmp_path / NAME).unlink()
    node.routes.watch()
    node.begin()
    assert node.routes.internal(NAMES) == good


# ---- seen


def test_a_certificate_is_in_use_when_a_handshake_showed_it() -> None:
    """M-06: a handshake that fails is told, not only missed."""
    node = Node()
    proof, other = node.public(), node.public(host=f"shop.{PUBLIC}")
    state = node.routes.state(HOST)
    assert state is not None and state.handshake_s == 0.0
    assert node.seen(proof)
    node.now += 100
    assert node.seen(proof)
    state = node.routes.state(HOST)
    assert state is not None and state.handshake_s == START_S and state.trouble == ""
    for leaf, trouble, words in (
        (der(other), "", "the current one is"),
        (b"", "", "no certificate"),
        (b"junk", "", "the current one is"),
        (b"", "nobody listens on 127.0.0.1:443", "nobody listens"),
        (der(proof), "it does not prove its name", "prove"),
    ):
        assert not node.routes.seen(HOST, leaf, trouble)
        state = node.routes.state(HOST)
        assert state is not None and words in state.trouble
        assert node.told() == ["handshake_failed"]
    assert node.seen(proof) and node.told() == []
    assert not node.routes.seen("unknown.example.test", der(proof))


def test_a_renewed_certificate_is_seen_anew() -> None:
    node = Node()
    assert node.seen(node.public())
    node.pass_days(61)
    renewed = node.public()
    state = node.routes.state(HOST)
    assert state is not None and state.handshake_s == 0.0
    assert node.seen(renewed)


# ---- forgotten


def test_what_no_route_names_any_more_is_forgotten_with_its_findings() -> None:
    node = Node()
    node.routes.internal(NAMES)
    node.public()
    node.routes.seen(HOST, b"", "nobody listens")
    assert node.told() == ["handshake_failed"]
    node.routes.forget_all_but((NAME,))
    assert node.shelf.names() == (NAME,) and node.told() == [] and node.routes.state(HOST) is None


# ---- keys


def silent(node: Node) -> bool:
    """Not a byte of any key in anything that leaves this object, but the proofs themselves (I-18)."""
    words = repr((node.said, node.findings.all(), [node.routes.state(name) for name in (NAME, HOST)], node.routes))
    keys = [kept.private for name in node.shelf.names() if (kept := node.shelf.kept(name)) is not None]
    lines = [line.decode() for key in keys for line in key.splitlines() if len(line) > 30]
    return "PRIVATE" not in words and not any(line in words for line in lines)


def test_no_key_is_ever_said() -> None:
    """I-18, M-137: reports, findings and log carry names, digests and times."""
    node = Node()
    node.routes.internal(NAMES)
    proof = node.public()
    node.ca.trouble = NO
    node.pass_days(70)
    node.public()
    node.routes.seen(HOST, b"")
    node.told()
    assert silent(node) and "PRIVATE" not in repr(proof)


# ---- whatever happens


DEEDS = st.sampled_from(["day", "month", "gone", "no", "bad", "well", "restart", "full", "space", "rezone", "seen"])


@settings(max_examples=25, deadline=None)
@given(st.lists(DEEDS, max_size=20))
def test_whatever_happens_only_good_certificates_get_out(deeds: list[str]) -> None:
    """I-16: at no time, in no order of faults and restarts, is something given that a client would not believe."""
    shelf = MemoryShelf()
    node = Node(shelf=shelf)
    fleets = [FLEET, Settings("lab", internal_zone=ZONE, public_domains=(PUBLIC, "more.test"))]
    bad = iter(list(BAD.values()) * 5)
    for deed in deeds:
        match deed:
            case "day":
                node.pass_days(1)
            case "month":
                node.pass_days(31)
            case "gone" | "no":
                node.ca.trouble = GONE if deed == "gone" else NO
            case "bad":
                node.ca.trouble, node.ca.made = None, next(bad)
            case "well":
                node.ca.trouble = node.ca.made = None
            case "restart":
                node.begin(fleets[0])
            case "full" | "space":
                shelf.trouble = FULL_DISK if deed == "full" else None
            case "rezone":
                fleets.reverse()
                node.follow(fleets[0])
            case _:
                node.routes.seen(HOST, b"")
        node.routes.watch()
        check(node)
    node.ca.trouble = node.ca.made = shelf.trouble = None
    node.pass_days(1)
    assert node.public() and node.routes.internal(NAMES)
    node.routes.watch()
    assert not [found for found in node.findings.all() if found.code in ("certificate_failed", "certificate_expiring")]


def check(node: Node) -> None:
    for names in (NAMES, (HOST,)):
        try:
            proof = node.routes.internal(names) if names == NAMES else node.public()
        except HoldfastError as trouble:
            assert trouble.remedy and trouble.code == "certificate_failed"
            continue
        facts = node.own.chain(proof.chain, proof.private)
        assert set(facts.leaf.names) == set(names) and facts.key_belongs
        assert facts.not_before_s <= node.now < facts.not_after_s and len(facts.links) >= 2
