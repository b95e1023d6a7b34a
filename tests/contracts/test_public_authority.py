"""Ordering from a public authority: one in memory, and a real ACME server (caddy) that looks at port 80 of an edge.

M-81, M-84, M-87, M-114 (here the directory, its authorities and the account stand in [acme] and beside the shelf), C-26
and M-137: the key never leaves the node, only a request does. Whatever the authority does, it ends in time and words.
"""

import asyncio
import base64
import json
import os
import re
import signal
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.certificate_store.files import FileShelf
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.certificates.memory import MemoryCertificates
from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.handshake.tls import TlsHandshake
from holdfast.adapters.public_authority.acme.authority import AcmeAuthority
from holdfast.adapters.public_authority.memory import MemoryPublicAuthority
from holdfast.adapters.tls.server import server_context
from holdfast.agent.findings import Findings
from holdfast.agent.traffic.certificates.route_certificates import RouteCertificates
from holdfast.errors import Failed, HoldfastError, Limited, TryLater
from holdfast.model.certificate import DAY_S
from holdfast.model.fleet import Acme, Settings
from holdfast.ports.certificates import Certificates
from holdfast.ports.handshake import Shown
from holdfast.ports.public_authority import PublicAuthority
from holdfast.trust.servable import servable
from tests.fleets.acme import FORBIDDEN, Challenges, Names, PublicCa
from tests.fleets.meddler import Meddler, Reply
from tests.fleets.waiting import Stopwatch

NAME, UNKNOWN = "www.example.test", "nowhere.example.test"
AT_MOST_S = 30.0
# One address of the loopback net per process that runs tests: ports 53 and 80 are free there.
EDGE = f"127.77.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"


class Memory:
    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        self.history: list[dict[str, str]] = []
        self.authority: PublicAuthority = MemoryPublicAuthority(time.time, lambda _, token: self.tokens.get(token))
        self.settings = Acme("https://ca.example.test/directory", terms_agreed=True)
        self.reader: Certificates = MemoryCertificates()

    async def answer(self, tokens: Mapping[str, str]) -> None:
        self.history.append(dict(tokens))
        self.tokens = dict(tokens)


class Caddy:
    def __init__(self, folder: Path, ca: PublicCa, port_80: Challenges) -> None:
        self.authority: PublicAuthority = AcmeAuthority(str(folder / "acme"), PosixDisk(), pause_s=0.01)
        self.settings = ca.settings
        self.reader: Certificates = X509Certificates("/agent", MemoryDisk())
        self.answer = port_80.answer
        self.history = port_80.history


@pytest.fixture(scope="module")
def port_80() -> Iterator[Challenges]:
    with Challenges(EDGE) as served:
        yield served


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicCa]:
    with Names({NAME: EDGE}, EDGE), PublicCa(tmp_path_factory.mktemp("ca"), EDGE) as made:
        yield made


@pytest.fixture
def caddy(tmp_path: Path, ca: PublicCa, port_80: Challenges) -> Caddy:
    port_80.history.clear()
    return Caddy(tmp_path, ca, port_80)


@pytest.fixture(params=["memory", "caddy"])
def world(request: pytest.FixtureRequest) -> Memory | Caddy:
    if request.param == "memory":
        return Memory()
    made: Caddy = request.getfixturevalue("caddy")
    return made


def ordered(world: Memory | Caddy, name: str = NAME, at_most_s: float = AT_MOST_S) -> tuple[bytes, bytes]:
    return asyncio.run(world.authority.order(world.settings, (name,), world.answer, at_most_s))


# ---- both


def test_what_is_answered_on_port_80_is_signed_for(world: Memory | Caddy) -> None:
    """M-81, M-87: a full chain for exactly this name, and a key that was made here."""
    chain, private = ordered(world)
    facts = world.reader.chain(chain, private)
    assert servable(facts, chain, private, (NAME,), time.time()).digest == facts.leaf.digest
    assert not facts.own_kind and facts.leaf.names == (NAME,)
    assert facts.leaf.not_after_s - time.time() == pytest.approx(90 * DAY_S, abs=600)


def test_challenges_are_answered_while_somebody_looks_and_taken_away_after(world: Memory | Caddy) -> None:
    ordered(world)
    first, last = world.history[0], world.history[-1]
    assert len(first) == 1 and last == {}


def test_every_order_has_a_key_of_its_own(world: Memory | Caddy) -> None:
    assert ordered(world)[1] != ordered(world)[1]


def test_who_does_not_answer_is_refused_and_has_nothing(world: Memory | Caddy) -> None:
    """M-84."""
    told: list[Mapping[str, str]] = []

    async def nowhere(tokens: Mapping[str, str]) -> None:
        told.append(tokens)

    with pytest.raises(Failed) as refused:
        asyncio.run(world.authority.order(world.settings, (NAME,), nowhere, AT_MOST_S))
    assert "refused" in refused.value.message and "port 80" in refused.value.remedy
    assert told[-1] == {}


def test_nobody_agrees_to_terms_for_the_operator(world: Memory | Caddy) -> None:
    world.settings = replace(world.settings, terms_agreed=False)
    with pytest.raises(Failed) as refused:
        ordered(world)
    assert refused.value.code == "acme_terms" and "terms_agreed = true" in refused.value.remedy
    assert world.history == []


# ---- the real one


def test_the_account_stays_and_only_root_reads_it(caddy: Caddy, tmp_path: Path) -> None:
    """I-18: neither the account's key nor the certificate's is anywhere but here, and none is said."""
    _, private = ordered(caddy)
    folder = tmp_path / "acme"
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert sorted(kept) == ["acme-account.key", "acme-authorities.pem"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    ordered(caddy)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == kept
    assert private not in kept.values()


def test_a_damaged_account_key_is_made_anew(caddy: Caddy, tmp_path: Path) -> None:
    ordered(caddy)
    key = tmp_path / "acme" / "acme-account.key"
    key.write_bytes(key.read_bytes()[:50])
    assert ordered(caddy)
    assert b"PRIVATE KEY" in key.read_bytes()


def test_the_authoritys_own_words_are_told(caddy: Caddy) -> None:
    with pytest.raises(Failed) as refused:
        ordered(caddy, FORBIDDEN)
    assert "rejectedIdentifier" in refused.value.message and "will not issue" in refused.value.message
    assert caddy.history == [], "nothing was answered for it"


def test_a_name_that_leads_nowhere_is_refused_in_words(caddy: Caddy) -> None:
    with pytest.raises(Failed) as refused:
        ordered(caddy, UNKNOWN)
    assert UNKNOWN in refused.value.message and "connect" in refused.value.message
    assert caddy.history[-1] == {}


def test_an_authority_that_nobody_vouches_for_is_not_asked(caddy: Caddy) -> None:
    caddy.settings = replace(caddy.settings, ca="")
    with pytest.raises(Failed) as refused:
        ordered(caddy)
    assert refused.value.code == "acme_unproven" and "[acme]" in refused.value.remedy


def test_an_authority_killed_in_the_middle_of_an_order_is_asked_again_later(
    tmp_path: Path, port_80: Challenges
) -> None:
    resolver = EDGE.replace("127.77.", "127.78.")
    with Names({NAME: EDGE}, resolver), PublicCa(tmp_path / "ca", resolver) as own:
        world = Caddy(tmp_path, own, port_80)

        async def killing(tokens: Mapping[str, str]) -> None:
            await port_80.answer(tokens)
            if tokens:
                own.stop(signal.SIGKILL)

        with pytest.raises(TryLater) as later:
            asyncio.run(world.authority.order(world.settings, (NAME,), killing, AT_MOST_S))
        assert later.value.code == "acme_unreachable" and "cannot be reached" in later.value.message
        assert port_80.tokens == {}
        with pytest.raises(TryLater):
            ordered(world)
        own.start()
        assert ordered(world)


def test_an_authority_that_hangs_holds_nobody_longer_than_told(caddy: Caddy, ca: PublicCa) -> None:
    os.kill(ca.pid, signal.SIGSTOP)
    try:
        watch = Stopwatch()
        with pytest.raises(TryLater) as later:
            ordered(caddy, at_most_s=0.5)
        assert watch.within(20)
        assert "within 0.5s" in later.value.message
    finally:
        os.kill(ca.pid, signal.SIGCONT)
    assert ordered_in_the_end(caddy)


def ordered_in_the_end(caddy: Caddy) -> bytes:
    """What was asked before is answered first, and may come between; `TryLater` means what it says."""
    for _ in range(20):
        try:
            return ordered(caddy)[0]
        except TryLater:
            time.sleep(0.1)
    raise AssertionError("it does not recover")


def test_several_orders_at_once_of_a_new_account_all_succeed(caddy: Caddy, port_80: Challenges) -> None:
    """An edge begins with all its hostnames together."""
    told: dict[int, dict[str, str]] = {}

    async def run() -> list[tuple[bytes, bytes]]:
        async def one(number: int) -> tuple[bytes, bytes]:
            async def answer(tokens: Mapping[str, str]) -> None:
                told[number] = dict(tokens)
                await port_80.answer({token: value for each in told.values() for token, value in each.items()})

            return await caddy.authority.order(caddy.settings, (NAME,), answer, AT_MOST_S)

        return await asyncio.gather(*(one(number) for number in range(4)))

    assert len({private for _, private in asyncio.run(run())}) == 4


def test_an_order_can_be_cancelled(caddy: Caddy, port_80: Challenges) -> None:
    """And takes its challenges with it."""

    async def run() -> None:
        reached = asyncio.Event()

        async def waiting(tokens: Mapping[str, str]) -> None:
            await port_80.answer(tokens)
            if tokens:
                reached.set()
                await asyncio.sleep(60)

        order = asyncio.create_task(caddy.authority.order(caddy.settings, (NAME,), waiting, AT_MOST_S))
        await asyncio.wait_for(reached.wait(), 60)
        order.cancel()
        with pytest.raises(asyncio.CancelledError):
            await order

    asyncio.run(run())
    assert port_80.tokens == {}


def test_what_was_signed_is_shown_and_seen_in_a_real_handshake(caddy: Caddy, tmp_path: Path) -> None:
    """M-81, I-16: ordered, judged, kept, shown, seen. The leaf is verified by the authority's root, as clients do, and
    by the last certificate of the chain alone."""
    findings = Findings(time.time)
    shelf = FileShelf(str(tmp_path / "routes"), PosixDisk())
    routes = RouteCertificates(caddy.reader, shelf, caddy.authority, time.time, findings, lambda event, fields: None)
    routes.follow(Settings("lab", internal_zone="svc.lab.test", public_domains=("example.test",)))

    async def run() -> list[Shown]:
        proof = await routes.public(NAME, caddy.settings, caddy.answer, AT_MOST_S)
        server = await asyncio.start_server(lambda *_: None, EDGE, 0, ssl=server_context(proof.chain, proof.private))
        async with server:
            port = server.sockets[0].getsockname()[1]
            whom = (routes.anchor(NAME), caddy.settings.ca.encode())
            return [await TlsHandshake().shown(EDGE, port, NAME, one, 10.0) for one in whom]

    for shown in asyncio.run(run()):
        assert shown.trouble == "" and routes.seen(NAME, shown.leaf, shown.trouble)
    state = routes.state(NAME)
    assert state is not None and state.authority == "acme" and state.handshake_s > 0
    assert findings.all() == () and shelf.names() == (NAME,)


# ---- wrong answers


def problem(status: int, kind: str, reply: Reply, **headers: str) -> Reply:
    body = b'{"type":"urn:ietf:params:acme:error:%s","detail":"said the authority\\u001b[31m"}' % kind.encode()
    return Reply(status, {**reply.headers, "Content-Type": "application/problem+json", **headers}, body)


def meddled(caddy: Caddy, ca: PublicCa, meddler: Meddler) -> HoldfastError:
    caddy.settings = Acme(meddler.directory, terms_agreed=True, ca=meddler.root)
    with pytest.raises(HoldfastError) as told:
        ordered(caddy)
    assert told.value.remedy and told.value.message.isprintable() and len(told.value.message) < 500
    assert "PRIVATE" not in told.value.message
    assert not caddy.history or caddy.history[-1] == {}
    return told.value


def test_a_nonce_that_is_over_is_fetched_anew(caddy: Caddy, ca: PublicCa) -> None:
    refused: list[str] = []

    def change(method: str, path: str, reply: Reply) -> Reply:
        if path.endswith("/new-order") and not refused:
            refused.append(path)
            return problem(400, "badNonce", reply)
        return reply

    with Meddler(ca.directory, change) as meddler:
        caddy.settings = Acme(meddler.directory, terms_agreed=True, ca=meddler.root)
        assert ordered(caddy)
        assert refused and meddler.asked.count(f"POST {refused[0]}") == 2


def test_the_account_has_the_contact_that_the_fleet_declares(caddy: Caddy, ca: PublicCa) -> None:
    with Meddler(ca.directory) as meddler:
        caddy.settings = Acme(meddler.directory, ("mailto:ops@example.test",), terms_agreed=True, ca=meddler.root)
        assert ordered(caddy)
    (body,) = [body for path, body in meddler.bodies if path.endswith("/new-account")]
    payload = json.loads(body)["payload"]
    assert json.loads(base64.urlsafe_b64decode(payload + "=="))["contact"] == ["mailto:ops@example.test"]


WRONG: dict[str, tuple[str, Reply | str, type[HoldfastError]]] = {
    "always an old nonce": ("/new-order", "badNonce", TryLater),
    "in trouble itself": ("/new-order", "serverInternal", TryLater),
    "malformed": ("/new-account", "malformed", Failed),
    "wants an account made elsewhere": ("/new-account", "externalAccountRequired", Failed),
    "no JSON": ("/directory", Reply(200, {}, b"<html>hello</html>"), TryLater),
    "another JSON": ("/directory", Reply(200, {}, b"[1, 2, 3]"), TryLater),
    "an empty directory": ("/directory", Reply(200, {}, b"{}"), TryLater),
    "a gateway's page": ("/new-order", Reply(502, {}, b"<html>Bad Gateway</html>"), TryLater),
    "leads out of TLS": ("/directory", Reply(302, {"Location": f"http://{EDGE}/plain"}, b""), TryLater),
    "leads to a file": ("/directory", Reply(302, {"Location": "file:///etc/passwd"}, b""), TryLater),
    "far too long": ("/directory", Reply(200, {}, b"x" * 1_000_000), TryLater),
    "an order of nothing": ("/new-order", Reply(201, {}, b"{}"), TryLater),
    "no nonce": ("/new-nonce", Reply(200, {}, b""), TryLater),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_answers_end_in_words(kind: str, caddy: Caddy, ca: PublicCa, port_80: Challenges) -> None:
    """M-84: nothing is signed, nothing is kept, and it is clear whether somebody has to do something."""
    path, instead, family = WRONG[kind]

    def change(method: str, asked: str, reply: Reply) -> Reply:
        if not asked.endswith(path):
            return reply
        return problem(400, instead, reply) if isinstance(instead, str) else instead

    with Meddler(ca.directory, change) as meddler:
        told = meddled(caddy, ca, meddler)
    assert isinstance(told, family)
    assert "/plain" not in port_80.fetched, "nobody is led to an address without TLS"
    assert ("exceeds" in told.message) is (kind == "far too long"), "read no further than that"


def test_who_is_asked_too_often_says_when_to_come_back(caddy: Caddy, ca: PublicCa) -> None:
    def change(method: str, path: str, reply: Reply) -> Reply:
        return problem(429, "rateLimited", reply, **{"Retry-After": "7200"}) if path.endswith("/new-order") else reply

    with Meddler(ca.directory, change) as meddler:
        told = meddled(caddy, ca, meddler)
    assert isinstance(told, Limited) and told.retry_after_s == 7200
    assert "said the authority" in told.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"value":"www.example.test"', b'"value":"web.svc.lab.test"'),
        (b'"type":"http-01"', b'"type":"dns-01"'),
        (b'"token":"', b'"token":"../../'),
    ],
    ids=["another name", "another challenge", "a token that climbs"],
)
def test_nothing_is_answered_but_plain_tokens_for_what_was_ordered(
    old: bytes, new: bytes, caddy: Caddy, ca: PublicCa
) -> None:
    """I-17: an authority, or who stands between, cannot have us answer for other names or on other paths."""

    def change(method: str, path: str, reply: Reply) -> Reply:
        return replace(reply, body=reply.body.replace(old, new)) if "/authz/" in path else reply

    with Meddler(ca.directory, change) as meddler:
        meddled(caddy, ca, meddler)
    tokens = [token for told in caddy.history for token in told]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", token) for token in tokens)
    assert b"token" in old or not tokens
