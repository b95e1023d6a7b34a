"""S02: every kind of caller at every path with every method gets what the table says, and every refusal is audited.

Generated from the table and from the routes: a new route or a new kind is tried without anybody writing a test for it.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from msgspec import Struct
from msgspec.structs import replace

from holdfast.hub.http import permissions
from holdfast.hub.http.handlers.hub_file import COPY
from holdfast.hub.http.route import Route
from holdfast.hub.http.routes import ROUTES
from holdfast.model.fleet import Fleet
from holdfast.model.principal import KINDS, Kind
from holdfast.wire import codec, messages
from tests.fleets.build import commit, mailbox, next_candidate, operator_signer, small_fleet
from tests.fleets.serving import (
    ALICE,
    NOBODY,
    Caller,
    Holder,
    Machine,
    Person,
    Reply,
    Served,
    connected,
    key_of,
    reply,
    request,
    served,
)
from tests.fleets.waiting import Stopwatch, wait_until

METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE")
UNKNOWN = ("/", "/v2/head", "/v1/secrets", "/v1/head/", "/metrics")
NOT_ME = (401, 403)


class Guise(Struct, frozen=True):
    """A caller, the kind of principal he should be taken for, and the code if his credential does not hold."""

    name: str
    caller: Caller
    kind: Kind
    bad: str = ""


def three_nodes() -> Fleet:
    fleet = small_fleet({"web": 1, "api": 1}, nodes=("w1", "w2", "w3", "e1"))
    settings = replace(fleet.settings, public_domains=("example.test",))
    nodes = fleet.nodes | {"e1": replace(fleet.nodes["e1"], roles=("edge",))}
    return replace(fleet, settings=settings, nodes=nodes)


def revoked_token(hub: Served) -> Holder:
    found = hub.token("ended")
    hub.parts.tokens.revoke(found.text.split("_")[1])
    return found


def expired_token(hub: Served) -> Holder:
    found = hub.token("short", 1)
    time.sleep(1.1)
    return found


def guises(hub: Served) -> Iterator[Guise]:
    yield Guise("anonymous", NOBODY, "anonymous")
    yield Guise("viewer", hub.token(), "viewer")
    yield Guise("viewer, expired", expired_token(hub), "viewer", "token_expired")
    yield Guise("viewer, revoked", revoked_token(hub), "viewer", "token_revoked")
    yield Guise("viewer, made up", Holder("hf_0123456789abcdef_" + "A" * 43), "viewer", "token_refused")
    yield Guise("operator", ALICE, "operator")
    yield Guise(
        "operator, expired", Person("late", ALICE.signer, lasts_s=10, began_s=-100), "operator", "session_expired"
    )
    yield Guise("operator, early", Person("early", ALICE.signer, began_s=1000), "operator", "session_early")
    yield Guise("operator, too long", Person("long", ALICE.signer, lasts_s=13 * 3600), "operator", "session_refused")
    yield Guise("operator, left", Person("bob", operator_signer("bob")[1]), "operator", "unknown_operator")
    yield Guise("operator, clock", Person("skewed", ALICE.signer, skew_s=-90), "operator", "clock_skew")
    yield Guise("node w1", hub.joined("w1"), "node")
    yield Guise("node w2", hub.joined("w2"), "node")
    yield Guise("edge e1", hub.joined("e1", ("edge",)), "node")
    yield Guise("stranger's key", Machine("nobody knows me"), "joining")
    gone = hub.joined("w3")
    hub.revoked("w3")
    yield Guise("node, revoked", gone, "joining")  # any key may knock; what it may do is what a stranger's may


class Conversation:
    """One caller on one connection."""

    def __init__(self, hub: Served, who: Caller, closing: ExitStack) -> None:
        self._hub, self._who = hub, who
        self._line = closing.enter_context(connected(hub))
        self._closing = closing

    def ask(self, method: str, target: str, body: bytes | None) -> Reply:
        self._line.sendall(request(self._hub, method, target, body, self._who))
        read = b""
        while b"\r\n\r\n" not in read:
            piece = self._line.recv(65536)
            assert piece, (method, target, read)
            read += piece
        head, _, content = read.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        while method != "HEAD" and len(content) < int(fields["Content-Length"]):
            content += self._line.recv(65536)
        return Reply(int(head[9:12]), {name.lower(): text for name, text in fields.items()}, content)


def targets(digest: str) -> dict[str, str]:
    """Every path with something real in it."""
    values = {"{number}": "1", "{digest}": digest, "{token}": "0123456789abcdef", "{order}": "0" * 32}
    found = {}
    for route in ROUTES:
        filled = route.path
        for name, value in values.items():
            filled = filled.replace(name, value)
        found[route.path] = filled + ("?first=1&last=1" if route.path == "/v1/links" else "")
    return found


def expected(guise: Guise, route: Route | None) -> str:
    """`code` of the refusal, or "" if the table lets him through."""
    if route is not None and route.operation in permissions.PUBLIC:
        return ""
    if guise.bad:
        return guise.bad
    if guise.kind == "anonymous":
        return "unauthenticated"
    if route is None:
        return "not_found"
    if route.operation == COPY.name and guise.kind == "node":
        return "not_the_hub"  # no node of this fleet has that role
    return "" if guise.kind in permissions.ALLOWED[route.operation] else "permission_denied"


def test_the_whole_table_is_what_the_hub_does() -> None:
    mail = mailbox()
    commit(mail, three_nodes())
    applied = mail.applied()
    assert applied is not None
    filled = targets(applied.table.entries["service.web"].digest)
    known = {(route.method, route.path): route for route in ROUTES}
    want: Counter[tuple[str, str]] = Counter()
    tried = 0
    with served(mail) as hub, ExitStack() as closing:
        everybody = list(guises(hub))
        before = len(hub.events())
        for guise in everybody:
            line = Conversation(hub, guise.caller, closing)
            for path, target in [*filled.items(), *((path, path) for path in UNKNOWN)]:
                for method in METHODS:
                    route = known.get(("GET" if method == "HEAD" else method, path))
                    code = expected(guise, route)
                    ledger = hub.store.revision()
                    answer = line.ask(method, target, b"{}" if method in ("POST", "PUT") else None)
                    tried += 1
                    where = (guise.name, method, path, answer)
                    if not code:
                        assert answer.status not in NOT_ME, where
                        continue
                    assert hub.store.revision() == ledger, where
                    assert (answer.status in (404, 405)) == (code == "not_found"), where
                    assert answer.status in (*NOT_ME, 404, 405), where
                    if method != "HEAD" and code != "not_found":
                        assert answer.json()["code"] == code, where
                        assert answer.json()["remedy"], where
                    want[guise.name, route.operation if route else "unknown"] += 1
    assert tried == len(everybody) * (len(filled) + len(UNKNOWN)) * len(METHODS)
    by_hub = [event for event in hub.events()[before:] if event.result == "denied"]
    assert sum(event.count for event in by_hub) == sum(want.values())
    per_operation: Counter[str] = Counter()
    for (_, operation), count in want.items():
        per_operation[operation] += count
    written: Counter[str] = Counter()
    for event in by_hub:
        written[event.action] += event.count
    assert written == per_operation, "every refusal is in the log under its operation, flood or not"


def test_every_kind_of_the_table_that_can_reach_a_hub_was_tried() -> None:
    with served(mailbox()) as hub:
        commit(hub.parts.hub, three_nodes())  # type: ignore[arg-type]
        tried = {guise.kind for guise in guises(hub)}
    assert set(KINDS) - tried == {"founder", "hub", "guest"}  # the first has a test below; the others meet agents


def test_before_the_first_revision_a_founder_may_found_and_little_else() -> None:
    """Any key can be a founder's: what he founds is judged by the trust that the ledger is pinned to."""
    filled = targets("0" * 64)
    founder = Person("founder", operator_signer("somebody")[1])
    with served(mailbox()) as hub, ExitStack() as closing:
        line = Conversation(hub, founder, closing)
        for route in ROUTES:
            answer = line.ask(route.method, filled[route.path], b"{}" if route.method == "POST" else None)
            may = "founder" in permissions.ALLOWED[route.operation]
            assert (answer.status not in NOT_ME) == may, (route, answer)
        body = codec.write(messages.commit_request(next_candidate(small_fleet(), None)))
        assert line.ask("POST", "/v1/revisions", body).status == 200
        assert hub.signed("GET", "/v1/status", as_=founder).json()["code"] == "unknown_operator"
        assert hub.signed("GET", "/v1/status", as_=ALICE).status == 200


# ---- a node is itself and nobody else


@pytest.fixture(scope="module")
def fleet() -> Iterator[Served]:
    mail = mailbox()
    commit(mail, three_nodes())
    with served(mail) as hub:
        hub.joined("w1")
        hub.joined("w2")
        yield hub


def _clocks_that_are_off(hub: Served) -> list[str]:
    answer = hub.signed("GET", "/v1/status", as_=ALICE)
    return [found["message"] for found in answer.json()["findings"] if found["code"] == "clock_skew"]


def test_a_node_whose_requests_are_refused_for_its_clock_is_named_with_it(fleet: Served) -> None:
    """X23: only by what it signed itself; a stranger who names the key of a node says nothing about its clock."""

    class Stranger(Machine):
        def headers(self, hub: Served, method: str, target: str, body: bytes | None) -> dict[str, str]:
            right = super().headers(hub, method, target, body)
            forged = Machine("nobody", self.skew_s).headers(hub, method, target, body)
            return right | {"Signature": forged["Signature"]}

    for who in (Stranger("w1", 7200), Machine("w3", 7200)):  # w3 never joined
        assert fleet.signed("GET", "/v1/head", as_=who).status == 401
        assert _clocks_that_are_off(fleet) == []
    assert fleet.signed("GET", "/v1/head", as_=Machine("w1", 7200)).status == 401
    (message,) = _clocks_that_are_off(fleet)
    assert re.fullmatch(r"the clock of w1 is 7[12]\d\d s ahead", message)


def test_a_node_reads_its_own_contents_and_no_others(fleet: Served) -> None:
    """D8: what is another's is for it as if it were not there."""
    applied = fleet.parts.hub.applied()
    assert applied is not None
    homes = {
        str(entry.node): entry.digest for name, entry in applied.table.entries.items() if name.startswith("service.")
    }
    assert set(homes) == {"w1", "w2"}, "placed on both, or this shows nothing"
    for name, other in (("w1", "w2"), ("w2", "w1")):
        machine = Machine(name)
        own = [homes[name], applied.header.manifests[name], applied.table.entries[f"node.{name}"].digest]
        foreign = [homes[other], applied.header.manifests[other], applied.table.entries[f"node.{other}"].digest]
        assert [fleet.signed("GET", f"/v1/node/blobs/{d}", as_=machine).status for d in own] == [200] * 3
        assert [fleet.signed("GET", f"/v1/node/blobs/{d}", as_=machine).status for d in foreign] == [404] * 3
        assert [fleet.signed("GET", f"/v1/blobs/{d}", as_=machine).status for d in own] == [403] * 3
    trust = applied.header.trust
    assert fleet.signed("GET", f"/v1/node/blobs/{trust}", as_=Machine("w1")).status == 404


def test_a_node_cannot_report_for_another(fleet: Served) -> None:
    """I-12, M-54: the name comes from the key; what stands in the body is an assertion."""
    before = len(fleet.events())
    refused = fleet.check_in(Machine("w1"), "w2")
    assert (refused.status, refused.json()["code"]) == (403, "name_mismatch")
    assert [(event.principal, event.result) for event in fleet.events()[before:]] == [("node:w1", "denied")]
    assert fleet.check_in(Machine("w1"), "w1").json()["head"]["number"] == 1


def test_a_key_that_is_nobodys_learns_that_and_nothing_else(fleet: Served) -> None:
    """D-04: it is told to join again; a revoked one likewise."""
    answer = fleet.check_in(Machine("nobody"), "w1")
    assert answer.status == 200
    assert answer.json()["registered"] is False
    assert answer.json()["head"]["number"] == 0
    assert not answer.json().keys() & {"manifest", "links", "orders"}


def test_a_revoked_key_is_out_with_the_next_request_and_its_held_check_in_ends() -> None:
    mail = mailbox()
    commit(mail, three_nodes())
    applied = mail.applied()
    assert applied is not None
    with served(mail) as hub, ThreadPoolExecutor(1) as threads, ExitStack() as closing:
        machine = hub.joined("w1")
        asking = "/v1/links?first=1&last=1"
        line = closing.enter_context(connected(hub))
        line.sendall(request(hub, "GET", asking, as_=machine))
        assert reply(line).status == 200
        held = threads.submit(hub.check_in, machine, "w1", seen=applied.head, wait_s=30.0)
        watched = hub.parts.fleet.watched
        wait_until(lambda: watched.members["w1"].bell.is_held, "its check-in is held")
        watch = Stopwatch()
        hub.revoked("w1")
        assert held.result(60).json()["registered"] is False
        assert watch.within(5)
        line.sendall(request(hub, "GET", asking, as_=machine))
        refused = reply(line)
        assert (refused.status, refused.headers["connection"]) == (403, "close"), "its place is another's now"
        assert line.recv(1) == b""
        again = hub.signed("POST", "/v1/join", codec.write(hub.joining("w1")), machine)
        assert (again.status, again.json()["code"]) == (403, "revoked")


def test_the_name_in_a_join_is_the_one_in_the_invite(fleet: Served) -> None:
    asked = replace(fleet.joining("w3"), name="w2")
    answer = fleet.signed("POST", "/v1/join", codec.write(asked), Machine("w3"))
    assert answer.status == 403
    assert key_of("w3").line not in {node.key for node in fleet.parts.fleet.views.nodes().nodes}
