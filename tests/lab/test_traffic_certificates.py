"""Certificates grow old while they are used: renewed without a dropped connection, told of if that is impossible, and
nothing that is bad is ever shown (issue 5).

The lab begins 89 days ago by libfaketime. What it issues then, and 61 days later, is valid today: clients and proxies,
who have the real time, verify everything at every moment.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.model.certificate import DAY_S, Issued
from tests.fleets.faked_time import SceneInFakedTime, scene_in_faked_time
from tests.fleets.lasting import Conversations, Echoed, KeptAlive, Multiplexed
from tests.fleets.load import trusting
from tests.fleets.traffic_scene import DOMAIN, EDGE, ZONE, Watch
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

WORKER = "w1"
PUBLIC, INTERNAL = f"shop.{DOMAIN}", f"web.shop.{ZONE}"
PLACES = ((EDGE, PUBLIC), (WORKER, INTERNAL))
BEGUN, RENEWED = -89, -28  # days from today; certificates live for 90 and are renewed with 30 left
EXPIRING, STALE = 24, 20  # days left: less than 25, less than 21
PATIENCE_S = 30  # a handshake that is slow is no handshake that fails
RENEWAL_S = 30.0  # how long a renewal may take that is due; looked for every 10 s


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SceneInFakedTime]:
    with scene_in_faked_time(tmp_path_factory.mktemp("aged"), BEGUN) as made:
        made.hello("shop", "hello:1")
        made.deploy("shop").ok()
        yield made


class Shown(NamedTuple):
    leaf: str  # digest
    key: str  # digest of the public key
    days: int  # from today until it ends


def shown(scene: SceneInFakedTime, node: str, name: str, authorities: Path | None = None) -> Shown | None:
    """The certificate of a new handshake; None if there was none. Judged by the client only if it is told by whom."""
    context = trusting(authorities) if authorities else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authorities is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((scene.addresses[node], 443), timeout=PATIENCE_S) as link,
            context.wrap_socket(link, server_hostname=name) as talk,
        ):
            leaf = talk.getpeercert(binary_form=True)
    except (OSError, ssl.SSLError):
        return None
    assert leaf is not None
    certificate = x509.load_der_x509_certificate(leaf)
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    left_s = certificate.not_valid_after_utc.timestamp() - time.time()
    key = sha256(certificate.public_key().public_bytes(*form)).hexdigest()
    return Shown(sha256(leaf).hexdigest(), key, round(left_s / DAY_S))


def state_of(scene: SceneInFakedTime, node: str) -> Path:
    return Path(scene.made.node(node)["dirs"]["state"]) / "agent"


def issued(scene: SceneInFakedTime, node: str, name: str) -> int:
    """How often the agent had a certificate made for this name, by its log."""
    lines = (scene.made.dir / "logs" / f"{node}.agent.log").read_text().splitlines()
    said = [json.loads(line) for line in lines if "certificate_issued" in line]
    return sum(name in one["names"] for one in said)


# ---- renewed


def test_a_renewed_certificate_is_served_without_a_dropped_connection(scene: SceneInFakedTime) -> None:
    """M-88, M-87, I-01: two months pass at once, and the hub is dead. Every request is answered, every
    conversation goes on, and new clients are shown the new certificate and never again the old key."""
    authorities = scene.trust()
    before = {name: shown(scene, node, name, authorities) for node, name in PLACES}
    assert all(found is not None and found.days == 90 + BEGUN for found in before.values()), before
    edge, worker = scene.addresses[EDGE], scene.addresses[WORKER]
    lasting = [kind(edge, PUBLIC, authorities) for kind in (KeptAlive, Multiplexed, Echoed)]
    lasting += [kind(worker, INTERNAL, authorities) for kind in (KeptAlive, Multiplexed, Echoed)]
    handshakes = {name: Watch(partial(shown, scene, node, name, authorities), 0.1) for node, name in PLACES}
    talks, visitors = Conversations(lasting), scene.visitors("shop", rate=150)
    scene.made.lab("kill", "hub").ok()
    try:
        with talks.at_work(), visitors.at_work(), handshakes[PUBLIC].at_work(), handshakes[INTERNAL].at_work():
            talks.await_rounds(5)
            scene.time.is_in(RENEWED)
            for name, watch in handshakes.items():
                wait_until(partial(has_changed, watch), f"a new certificate is shown for {name}", RENEWAL_S)
            visitors.await_visits(100)
            scene.time.is_in(0)
            scene.made.lab("start", "hub").ok()
            wait_until(lambda: is_live(scene), "the hub is told that all is well")
            talks.await_rounds(5)
    finally:
        scene.made.lab("start", "hub").ok()
    assert visitors.failures == [] and talks.cut == {}
    for (node, name), watch in zip(PLACES, handshakes.values(), strict=True):
        old, new = (found for _, found in watch.changes)  # exactly once, and never back
        assert isinstance(old, Shown) and isinstance(new, Shown), watch.changes
        assert old == before[name] and new.days == 90 + RENEWED and new.key != old.key
        assert issued(scene, node, name) == 2, "no storm: once when it was deployed, and once when it was due"


def is_live(scene: SceneInFakedTime) -> bool:
    return bool(scene.edge_status(PUBLIC)["status"] == "live")


def has_changed(watch: Watch) -> bool:
    return len(watch.changes) > 1


# ---- bad ones


class Bad(NamedTuple):
    chain: bytes
    private: bytes

    @property
    def leaf(self) -> str:
        found = x509.load_pem_x509_certificates(self.chain)[0]
        return sha256(found.public_bytes(serialization.Encoding.DER)).hexdigest()


def leaf_only(one: Issued) -> bytes:
    return one.chain[: one.chain.index(b"-----END CERTIFICATE-----\n") + len(b"-----END CERTIFICATE-----\n")]


Make = Callable[[X509Certificates, str], Bad]


def bad_by_time(days: int) -> Make:
    def make(issuer: X509Certificates, name: str) -> Bad:
        one = issuer.issue((name,), time.time() + days * DAY_S)
        return Bad(one.chain, one.private)

    return make


def without_chain(issuer: X509Certificates, name: str) -> Bad:
    one = issuer.issue((name,), time.time())
    return Bad(leaf_only(one), one.private)


def for_another_name(issuer: X509Certificates, name: str) -> Bad:
    one = issuer.issue((f"not-{name}",), time.time())
    return Bad(one.chain, one.private)


def with_another_key(issuer: X509Certificates, name: str) -> Bad:
    return Bad(issuer.issue((name,), time.time()).chain, issuer.issue((name,), time.time()).private)


KINDS: dict[str, Make] = {
    "expired": bad_by_time(-91),
    "early": bad_by_time(7),
    "leaf-only": without_chain,
    "wrong-name": for_another_name,
    "wrong-key": with_another_key,
}


def test_a_bad_certificate_on_the_shelf_is_never_shown_and_replaced(scene: SceneInFakedTime) -> None:
    """I-16, M-06, M-82: five kinds of them, put there by hand for public and for internal names while nothing ran; the
    proxies have lost all they had, so that nothing but the shelf could be shown."""
    routes = [
        f'[[components.routes]]\nname = "{kind}"\nport = 8080\npublic = true\nhostname = "{kind}.{DOMAIN}"\n'
        for kind in KINDS
    ]
    check = 'health = { type = "http", path = "/health", port = 8080 }'
    head = f'node = "{WORKER}"\n[[components]]\nname = "web"\nimage = "{scene.registry}/hello:1"\n{check}\n'
    scene.write("many", head + "\n".join(routes))
    scene.deploy("many").ok()
    names = {WORKER: internal_names(), EDGE: {kind: f"{kind}.{DOMAIN}" for kind in KINDS}}
    places = [(node, name) for node, found in names.items() for name in found.values()]
    bad = {leaf for node, found in names.items() for leaf in swapped(scene, node, found)}
    seen: set[str] = set()

    def look() -> None:
        seen.update(found.leaf for node, name in places if (found := shown(scene, node, name)) is not None)

    with Watch(look).at_work():
        for node in names:
            scene.made.lab("start", node).ok()
        for node, name in places:
            good = partial(is_good, scene, node, name)
            wait_until(good, f"a good one is shown for {name}")
    assert len(bad) == len(places) and bad.isdisjoint(seen)
    wait_until(lambda: scene.answers("shop"), "and everything else is there again")
    for kind in KINDS:
        assert scene.fetch(kind)[0] == "200", kind


def swapped(scene: SceneInFakedTime, node: str, names: dict[str, str]) -> set[str]:
    """Agent and proxy end, what the proxy had is gone, and bad certificates lie on the shelf; returns their leaves."""
    state = state_of(scene, node)
    scene.made.lab("kill", node, "--agent").ok()
    scene.inside(node, "kill", (state / "proxy" / "supervisor.lock").read_text().split()[0])
    wait_until(lambda: "proxy" not in scene.pids(node), f"the proxy of {node} ended")
    shutil.rmtree(state / "proxy")
    issuer = X509Certificates(str(state), PosixDisk())
    leaves = set()
    for kind, name in names.items():
        kept = state / "routes" / name
        assert kept.is_file(), sorted(path.name for path in kept.parent.iterdir())
        bad = KINDS[kind](issuer, name)
        kept.write_bytes(bad.chain + bad.private)
        leaves.add(bad.leaf)
    return leaves


def is_good(scene: SceneInFakedTime, node: str, name: str) -> bool:
    return shown(scene, node, name, scene.trust()) is not None


def internal_names() -> dict[str, str]:
    """The first route has the component's own name, the others stand below it."""
    first, *others = KINDS
    return {first: f"web.many.{ZONE}", **{kind: f"{kind}.web.many.{ZONE}" for kind in others}}


# ---- not renewed; last, for what is issued by then is not valid today


def test_what_cannot_be_renewed_is_told_of_before_it_ends(scene: SceneInFakedTime) -> None:
    """M-88, M-87: nothing can be kept on the shelf. With 25 days left somebody is told, with 21 somebody is told what
    clients are shown; the certificate is served on."""
    for node, name in PLACES:
        spoil(state_of(scene, node) / "routes" / name)
    before = {name: shown(scene, node, name, scene.trust()) for node, name in PLACES}
    ends = max(found.days for found in before.values() if found is not None)
    assert all(before.values())
    for left, code in ((EXPIRING, "certificate_expiring"), (STALE, "certificate_stale")):
        assert not any(about_of(scene, code, name) for _, name in PLACES), scene.ear.heard
        scene.time.is_in(ends - left)
        wait_until(partial(is_told, scene, code), f"{code} for both names", RENEWAL_S)
        assert scene.answers("shop"), "what is still good is served"
    assert {name: shown(scene, node, name, scene.trust()) for node, name in PLACES} == before


def test_what_cannot_be_renewed_disturbs_nothing_else(scene: SceneInFakedTime) -> None:
    """I-01, M-88: the service runs as it did, so that no rollout of it failed; nobody tries without a pause."""
    assert about_of(scene, "rollout_failed", "service.shop") == []
    assert "no_progress" not in (scene.made.dir / "logs" / f"{WORKER}.agent.log").read_text()


def test_what_can_be_renewed_again_is_renewed_by_itself(scene: SceneInFakedTime) -> None:
    """M-88: whatever kept it from being renewed is gone; a day later it is not that one any more."""
    before = shown(scene, WORKER, INTERNAL)
    kept = state_of(scene, WORKER) / "routes" / INTERNAL
    assert before is not None
    shutil.rmtree(kept)
    scene.time.is_in(before.days - STALE + 1)
    wait_until(lambda: shown(scene, WORKER, INTERNAL) not in (before, None), "a new one is shown")
    assert kept.is_file()


def spoil(kept: Path) -> None:
    """A directory in its place: nothing can be put there, not even by root."""
    kept.unlink()
    (kept / "in-the-way").mkdir(parents=True)


def is_told(scene: SceneInFakedTime, code: str) -> bool:
    return all(about_of(scene, code, name) for _, name in PLACES)


def about_of(scene: SceneInFakedTime, code: str, name: str) -> list[str]:
    """Alerts of this code that name it."""
    return [about for heard, about in list(scene.ear.heard) if heard == code and name in about]
