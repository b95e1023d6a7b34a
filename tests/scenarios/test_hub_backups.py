"""The hub's store of backups: who may, what fits, what goes on beside it (issue 15, A13, D8, I-12, R05, S02)."""

import asyncio
import os
import random
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.backup_target import hub as hub_target
from holdfast.adapters.backup_target.memory_objects import MemoryObjects
from holdfast.adapters.backup_target.store_directory import StoreDirectory
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.errors import Failed, Limited, NotPermitted
from holdfast.hub.backups.store import BackupStore
from holdfast.hub.http import limits
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX, BackupKey
from holdfast.model.order import NAMESPACE, SignedOrder
from holdfast.model.principal import Principal
from holdfast.trust import orders
from holdfast.wire import codec
from holdfast.wire.backup_messages import PresentRequest
from tests.fleets.backup_hub import SERVICES, HubProcess, any_receipt, hub_of_four, hub_process, target_of
from tests.fleets.backup_targets import HOSTILE, MIB, bytes_of, files_in, mounted, pack
from tests.fleets.build import ALICE_SIGNER, commit, mailbox, operator_signer, small_fleet, small_service
from tests.fleets.lives import pulse_of
from tests.fleets.serving import (
    ALICE,
    Caller,
    Machine,
    Person,
    Reply,
    Served,
    connected,
    key_of,
    raw,
    reply,
    request,
    served,
)
from tests.fleets.waiting import Stopwatch, wait_until

AT = "/v1/backup-objects"
BOB, BOB_SIGNER = operator_signer("bob", "apply", ("service.web",))
OBJECT = bytes_of("object", 3000)


def fleet_of(web: str = "w1", *failover: str) -> object:
    services = {
        "web": replace(small_service("web"), node=web, failover=failover),
        "api": replace(small_service("api"), node="w2"),
    }
    return small_fleet(services, ("w1", "w2", "w3"), (operator_signer("alice")[0], BOB))


class Rule:
    """Of receipts: notes what it was asked, and refuses what says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, str]] = []

    def __call__(self, key: BackupKey, content: bytes | bytearray, node: Principal) -> None:
        self.asked.append((key.text, bytes(content), node.name))
        if b"forged" in content:
            raise NotPermitted("not signed by this node", remedy="sign it", code="receipt_refused")


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.fixture
def rule() -> Rule:
    return Rule()


@pytest.fixture
def hub(objects: MemoryObjects, rule: Rule) -> Iterator[Served]:
    mail = mailbox()
    commit(mail, fleet_of("w1", "w3"))  # type: ignore[arg-type]
    store = BackupStore(objects, rule, lambda key: key.kind == "packs" and key.generation == 9)
    with served(mail, backups=store) as found:
        for node in ("w1", "w2", "w3"):
            found.joined(node)
        yield found


def put(hub: Served, node: Caller, content: bytes = OBJECT, service: str = "web", key: str = "") -> Reply:
    name = key or pack(content, hub.fleet_id, service)
    return hub.signed("PUT", f"{AT}?key={name}", content, node)


def get(hub: Served, who: Caller, key: str) -> Reply:
    return hub.signed("GET", f"{AT}?key={key}", as_=who)


def present(hub: Served, who: Caller, *keys: str) -> Reply:
    return hub.signed("POST", f"{AT}/present", codec.write(PresentRequest(keys)), who)


def listed(hub: Served, who: Caller, prefix: str, more: str = "") -> Reply:
    return hub.signed("GET", f"{AT}/list?prefix={prefix}{more}", as_=who)


# ---- who may


def test_a_node_stores_and_reads_what_belongs_to_its_services_and_nothing_of_others_d8(
    hub: Served, objects: MemoryObjects
) -> None:
    key, foreign = pack(OBJECT, hub.fleet_id), pack(OBJECT, hub.fleet_id, "api")
    assert put(hub, Machine("w1")).json() == {"key": key, "is_new": True}
    assert put(hub, Machine("w1")).json() == {"key": key, "is_new": False}
    assert put(hub, Machine("w2"), service="api").status == 200
    refused = put(hub, Machine("w1"), service="api")
    assert (refused.status, refused.json()["code"]) == (403, "not_your_service")
    assert put(hub, Machine("w1"), service="unknown").status == 403
    assert objects.objects.keys() == {key, foreign}
    for answer in (
        get(hub, Machine("w1"), foreign),
        present(hub, Machine("w1"), key, foreign),
        listed(hub, Machine("w1"), f"{hub.fleet_id[:16]}/api/"),
        listed(hub, Machine("w1"), f"{hub.fleet_id[:16]}/"),
        get(hub, Machine("w1"), pack(b"?", hub.fleet_id)),
    ):
        assert (answer.status, answer.json()["code"]) == (404, "not_found")
    assert get(hub, Machine("w1"), key).body == OBJECT
    assert present(hub, Machine("w1"), key).json() == {"keys": [key]}


def ordered(hub: Served, node: str, action: str, data: str) -> None:
    """An order to this node is on its way."""
    now_s, id = time.time(), sha256(f"{node} {action} {data}".encode()).hexdigest()[:32]
    content, spoken = orders.draft(
        hub.fleet_id, node, f"data.{data}", action, {"backup": "0" * 64}, 1, id[::-1], id, now_s, now_s + 120,
        pulse_of(hub.fleet_id, node, key_of(node), now_s),
    )  # fmt: skip
    signed = SignedOrder(content, spoken, (ALICE_SIGNER.sign(content, NAMESPACE),))
    answer = hub.signed("POST", "/v1/orders", codec.write(signed))
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("action", ["restore", "fetch-backup"])
def test_a_node_reads_what_a_signed_order_tells_it_to_restore_and_no_more_d8(
    hub: Served, objects: MemoryObjects, action: str
) -> None:
    key, own = pack(OBJECT, hub.fleet_id), pack(OBJECT, hub.fleet_id, "api")
    put(hub, Machine("w1"))
    put(hub, Machine("w2"), service="api")
    assert get(hub, Machine("w2"), key).status == 404
    ordered(hub, "w2", "purge", "web")
    ordered(hub, "w2", action, "api")
    assert get(hub, Machine("w2"), key).status == 404, "another action, another service"
    ordered(hub, "w2", action, "web")
    assert get(hub, Machine("w2"), key).body == OBJECT
    assert (
        present(hub, Machine("w2"), key, own).json()["keys"]
        and listed(hub, Machine("w2"), f"{hub.fleet_id[:16]}/web/").json()["objects"]
    )
    assert put(hub, Machine("w2")).status == 403, "and writes nothing there"
    assert get(hub, Machine("w1"), own).status == 404


def test_a_refused_write_is_in_the_audit_log(hub: Served) -> None:
    put(hub, Machine("w2"))
    hub.signed("DELETE", f"{AT}?key={pack(OBJECT, hub.fleet_id)}", as_=Machine("w1"))
    put(hub, ALICE)
    found = [(event.principal, event.action, event.detail) for event in hub.denials(3)]
    assert found == [
        ("node:w2", "write-backup", "not_your_service"),
        ("node:w1", "delete-backup", "backup_needed"),
        ("operator:alice", "write-backup", "permission_denied"),
    ]


def test_what_a_node_may_not_store_is_refused_before_its_body_is_sent(hub: Served) -> None:
    target = f"{AT}?key={pack(OBJECT, hub.fleet_id)}"
    for who, first in ((Machine("w2"), 403), (Machine("w1"), 100)):
        sent = request(hub, "PUT", target, OBJECT, who, Expect="100-continue")
        with connected(hub) as line:
            line.sendall(sent[: -len(OBJECT)])
            assert reply(line).status == first
            if first == 100:
                line.sendall(OBJECT)
                assert reply(line).status == 200


def test_a_standby_may_restore_and_another_node_may_not(hub: Served) -> None:
    key = pack(OBJECT, hub.fleet_id)
    put(hub, Machine("w1"))
    assert get(hub, Machine("w3"), key).body == OBJECT
    assert put(hub, Machine("w3"), bytes_of("of the standby")).status == 200
    assert get(hub, Machine("w2"), key).status == 404


def test_after_a_move_the_new_node_reads_and_writes_and_the_old_one_does_neither(hub: Served) -> None:
    key = pack(OBJECT, hub.fleet_id)
    put(hub, Machine("w1"))
    commit(hub.parts.hub, fleet_of("w2"))  # type: ignore[arg-type]
    assert get(hub, Machine("w2"), key).body == OBJECT
    assert put(hub, Machine("w2"), bytes_of("more")).status == 200
    assert get(hub, Machine("w1"), key).status == 404
    assert put(hub, Machine("w1"), bytes_of("late")).status == 403
    assert get(hub, Machine("w3"), key).status == 404


def test_operators_read_everything_within_their_scope_and_write_nothing(hub: Served) -> None:
    key, other = pack(OBJECT, hub.fleet_id), pack(OBJECT, hub.fleet_id, "api")
    put(hub, Machine("w1"))
    put(hub, Machine("w2"), service="api")
    bob, above = Person("bob", BOB_SIGNER), f"{hub.fleet_id[:16]}/"
    for one in (key, other):
        assert get(hub, ALICE, one).body == OBJECT
    assert [item["key"] for item in listed(hub, ALICE, above).json()["objects"]] == sorted((key, other))
    assert get(hub, bob, key).body == OBJECT and listed(hub, bob, above + "web/").status == 200
    for answer in (get(hub, bob, other), listed(hub, bob, above), present(hub, bob, other)):
        assert (answer.status, answer.json()["code"]) == (403, "out_of_scope")
    for who in (ALICE, bob):
        assert put(hub, who).status == 403
        assert hub.signed("DELETE", f"{AT}?key={key}", as_=who).status == 403


def test_a_node_stores_the_backups_of_itself_and_none_of_another_node_m34(hub: Served, objects: MemoryObjects) -> None:
    """Keys of two nodes never collide, and none is one of a service: no service has a dot in its name."""
    mine, other = (pack(OBJECT, hub.fleet_id, f"node.{name}") for name in ("w1", "w2"))
    above, carol = f"{hub.fleet_id[:16]}/", Person("bob", BOB_SIGNER)
    assert put(hub, Machine("w1"), service="node.w1").json() == {"key": mine, "is_new": True}
    assert put(hub, Machine("w2"), service="node.w2").json() == {"key": other, "is_new": True}
    for name in ("node.w2", "node.unknown"):
        refused = put(hub, Machine("w1"), service=name)
        assert (refused.status, refused.json()["code"]) == (403, "not_your_service")
    assert objects.objects.keys() == {mine, other}
    assert get(hub, Machine("w1"), mine).body == OBJECT
    assert [get(hub, Machine("w1"), other).status, listed(hub, Machine("w1"), above + "node.w2/").status] == [404, 404]
    assert get(hub, ALICE, mine).body == OBJECT
    assert get(hub, carol, mine).json()["code"] == "out_of_scope"


def test_an_operator_of_all_services_lists_them_and_no_backup_of_a_node(hub: Served) -> None:
    dave, signer = operator_signer("dave", "apply", ("service.*",))
    fleet: Any = fleet_of("w1", "w3")
    commit(hub.parts.hub, replace(fleet, operators=(*fleet.operators, dave)))  # type: ignore[arg-type]
    key, own = pack(OBJECT, hub.fleet_id), pack(OBJECT, hub.fleet_id, "node.w1")
    put(hub, Machine("w1"))
    put(hub, Machine("w1"), service="node.w1")
    above = f"{hub.fleet_id[:16]}/"
    assert [one["key"] for one in listed(hub, Person("dave", signer), above).json()["objects"]] == [key]
    assert [one["key"] for one in listed(hub, ALICE, above).json()["objects"]] == sorted((key, own))


def test_a_viewer_and_a_stranger_read_nothing(hub: Served) -> None:
    key = pack(OBJECT, hub.fleet_id)
    put(hub, Machine("w1"))
    assert get(hub, hub.token(), key).status == 403
    assert get(hub, Machine("nobody"), key).status == 403
    assert get(hub, Caller(), key).status == 401


def test_keys_of_another_fleet_are_not_there(hub: Served, objects: MemoryObjects) -> None:
    key = pack(OBJECT, "0" * 64)
    assert put(hub, Machine("w1"), key=key).status == 404
    assert get(hub, ALICE, key).status == 404 and objects.objects == {}


# ---- what may be sent


def test_a_request_that_was_recorded_is_refused_the_second_time(hub: Served, objects: MemoryObjects) -> None:
    key = pack(OBJECT, hub.fleet_id)
    sent = request(hub, "PUT", f"{AT}?key={key}", OBJECT, Machine("w1"))
    assert raw(hub, sent).status == 200
    objects.objects.clear()
    again = raw(hub, sent)
    assert (again.status, again.json()["code"], objects.objects) == (401, "replayed", {})


def test_bytes_that_were_changed_on_the_way_are_not_stored(hub: Served, objects: MemoryObjects) -> None:
    for content in (OBJECT, bytes_of("large", 2 * MIB)):  # one is compared on the loop, the other in a thread
        sent = request(hub, "PUT", f"{AT}?key={pack(content, hub.fleet_id)}", content, Machine("w1"))
        answer = raw(hub, sent[:-1] + bytes([sent[-1] ^ 1]))
        assert answer.status == 401 and objects.objects == {}
    other = put(hub, Machine("w1"), b"other", key=pack(OBJECT, hub.fleet_id))
    assert (other.status, other.json()["code"], objects.objects) == (409, "object_digest", {})


@pytest.mark.parametrize("text", [text for text in HOSTILE if len(text) < 1000], ids=lambda text: ascii(text[:40]))
def test_a_hostile_key_is_refused(hub: Served, objects: MemoryObjects, text: str) -> None:
    from urllib.parse import quote

    own = text.replace("f" * 16, hub.fleet_id[:16])
    for method in ("PUT", "GET", "DELETE"):
        answer = hub.signed(method, f"{AT}?key={quote(own, safe='')}", b"x" if method == "PUT" else None, Machine("w1"))
        assert answer.status in (400, 401), answer
    assert present(hub, Machine("w1"), own).status == 400
    assert objects.objects == {}


def test_an_object_has_24_mib_at_most(hub: Served, objects: MemoryObjects) -> None:
    key = pack(OBJECT, hub.fleet_id)
    head = request(hub, "PUT", f"{AT}?key={key}", OBJECT, Machine("w1"), Content_Length=str(OBJECT_BYTES_MAX + 1))
    answer = raw(hub, head)
    assert (answer.status, answer.json()["code"]) == (413, "body_too_large")
    most = bytes_of("most", OBJECT_BYTES_MAX)
    assert put(hub, Machine("w1"), most).status == 200
    assert len(get(hub, Machine("w1"), pack(most, hub.fleet_id)).body) == 4 * MIB
    assert put(hub, Machine("w1"), b"").status == 400, "and one byte at least"
    assert objects.objects.keys() == {pack(most, hub.fleet_id)}


def test_a_receipt_is_judged_by_the_rule_that_the_store_was_given(
    hub: Served, objects: MemoryObjects, rule: Rule
) -> None:
    good, forged = b'{"format":1}', b'{"format":1,"by":"forged"}'
    for content, status in ((good, 200), (forged, 403)):
        key = backup_key.receipt(hub.fleet_id, "web", 1, content)
        assert put(hub, Machine("w1"), content, key=key).status == status
    assert objects.objects == {backup_key.receipt(hub.fleet_id, "web", 1, good): good}
    assert [(content, node) for _, content, node in rule.asked] == [(good, "w1"), (forged, "w1")]


def test_an_object_is_deleted_only_if_the_rule_of_retention_says_so(hub: Served, objects: MemoryObjects) -> None:
    kept = pack(OBJECT, hub.fleet_id)
    old = pack(OBJECT, hub.fleet_id, generation=9)
    for key in (kept, old):
        put(hub, Machine("w1"), key=key)
    assert hub.signed("DELETE", f"{AT}?key={kept}", as_=Machine("w1")).json()["code"] == "backup_needed"
    assert hub.signed("DELETE", f"{AT}?key={old}", as_=Machine("w2")).status == 403
    for _ in range(2):
        assert hub.signed("DELETE", f"{AT}?key={old}", as_=Machine("w1")).json() == {"key": old}
    assert objects.objects.keys() == {kept}


def test_a_store_without_a_rule_deletes_nothing(objects: MemoryObjects) -> None:
    store = BackupStore(objects, any_receipt)
    with pytest.raises(NotPermitted):
        store.delete(backup_key.parse(pack(OBJECT)), Principal("node", "w1"))


def test_a_long_list_comes_in_pages(hub: Served) -> None:
    keys = sorted(pack(bytes_of(f"{number}", 40), hub.fleet_id) for number in range(7))
    for number in range(7):
        put(hub, Machine("w1"), bytes_of(f"{number}", 40))
    above, after, found = f"{hub.fleet_id[:16]}/web/", "", []
    for _ in range(3):
        page = listed(hub, Machine("w1"), above, f"&limit=3{after}").json()
        found += [one["key"] for one in page["objects"]]
        assert page["more"] is (len(found) < 7)
        after = f"&after={found[-1]}"
    assert found == keys


def test_a_hub_of_a_fleet_directory_stores_none() -> None:
    from holdfast.wiring.hub import _backups

    assert _backups(mailbox(), None) is None


# ---- what fits


def test_a_full_disk_takes_no_objects_and_the_ledger_goes_on_r05(tmp_path: Path) -> None:
    """The store is below the hub's state, on the disk of the ledger. It stops before the disk is full; if another
    program fills it to the last byte, nothing is half."""
    with mounted(tmp_path / "disk", "256M", "ext4") as disk:
        ledger = SqliteStore.open(str(disk / "ledger.db"), create=True)
        mail = mailbox(ledger)
        commit(mail, small_fleet({"web": 1}))
        store = BackupStore(StoreDirectory(str(disk / "backups")), any_receipt)
        with served(mail, backups=store) as hub:
            node, number = hub.joined("w1"), 0
            while (answer := put(hub, node, bytes_of(f"{number}", 8 * MIB))).status == 200:
                number += 1
            assert (answer.status, answer.json()["code"]) == (500, "no_space")
            assert "ledger goes on" in answer.json()["message"]
            assert os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize >= 64 * MIB and number > 10
            assert hub.signed("GET", f"{AT}/room", as_=node).json()["state"] == "full"
            for version in (2, 3):
                commit(mail, small_fleet({"web": version}))
            assert hub.check_in(node, "w1").json()["head"]["number"] == 3
            before = files_in(disk / "backups")
            os.posix_fallocate(filler := os.open(disk / "filler", os.O_CREAT | os.O_WRONLY), 0, _free(disk))
            os.close(filler)
            store._objects.room = lambda: MemoryObjects().room()  # type: ignore[method-assign]  # a look that is late
            answer = put(hub, node, bytes_of("late", 8 * MIB))
            assert (answer.status, answer.json()["code"]) == (500, "no_space")
            assert files_in(disk / "backups") == before
            (disk / "filler").unlink()
            assert put(hub, node, bytes_of("late", 8 * MIB)).status == 200
        ledger.close()


def _free(disk: Path) -> int:
    about = os.statvfs(disk)
    return about.f_bavail * about.f_frsize - 200_000


# ---- beside everything else


def test_four_large_objects_at_once_are_a_bounded_memory_and_delay_no_check_in(tmp_path: Path) -> None:
    """4 × 24 MiB are in memory while they are received and written. Check-ins are answered meanwhile."""
    with hub_process(tmp_path / "backups") as hub:
        before = hub.most_memory_mib()
        times = asyncio.run(asyncio.wait_for(_loaded(hub), 240))
        grown = hub.most_memory_mib() - before
    assert grown < 4 * 24 * 1.3 + 40, f"{grown:.0f} MiB more"
    assert len(times) >= 10
    print(f"check-ins during uploads: {len(times)}, p50 {times[len(times) // 2]:.3f} s, most {times[-1]:.3f} s")
    assert times[len(times) // 2] < 0.5


async def _loaded(hub: HubProcess) -> list[float]:
    contents = {service: [bytes_of(f"{service}{n}", OBJECT_BYTES_MAX) for n in range(3)] for service in SERVICES}
    targets = {service: hub.target(service) for service in SERVICES}
    done, times = asyncio.Event(), list[float]()

    async def upload(service: str) -> None:
        for content in contents[service]:
            await targets[service].put(pack(content, hub.fleet_id, service), content)

    async def look() -> None:
        asking = hub.target("web")
        while not done.is_set():
            began_s = time.monotonic()
            assert (await asking.look()).state == "attached"
            times.append(time.monotonic() - began_s)
            await asyncio.sleep(0.02)
        await asking.close()

    looking = asyncio.ensure_future(look())
    await asyncio.gather(*(upload(service) for service in SERVICES))
    done.set()
    await looking
    for target in targets.values():
        await target.close()
    return sorted(times)


def test_a_check_in_is_answered_while_objects_are_being_received(tmp_path: Path) -> None:
    """All places are taken by bodies that do not come; readers, commits and check-ins do not need them."""
    with hub_of_four(tmp_path / "backups") as hub:
        lines = []
        for number in range(limits.OBJECT_BODIES):
            node, service = f"w{number + 1}", _service(hub, f"w{number + 1}")
            sent = request(hub, "PUT", f"{AT}?key={pack(OBJECT, hub.fleet_id, service)}", OBJECT, Machine(node))
            line = connected(hub)
            line.sendall(sent[:-10])
            lines.append(line)
        watch = Stopwatch()
        assert hub.check_in(Machine("w1"), "w1").status == 200
        assert hub.signed("GET", "/v1/head").status == 200
        assert watch.within(2)
        for line in lines:
            line.sendall(OBJECT[-10:])
            assert reply(line).status == 200
            line.close()


def test_one_node_does_not_take_the_places_of_all(tmp_path: Path) -> None:
    with hub_of_four(tmp_path / "backups") as hub:
        service, lines = _service(hub, "w1"), []
        for number in range(limits.OBJECT_BODIES_PER_CALLER + 1):
            content = bytes_of(f"{number}", 5000)
            sent = request(hub, "PUT", f"{AT}?key={pack(content, hub.fleet_id, service)}", content, Machine("w1"))
            line = connected(hub)
            line.sendall(sent[:-10])
            lines.append(line)
            time.sleep(0.2)
        refused = reply(lines[-1])
        assert (refused.status, refused.json()["code"]) == (429, "resource_exhausted")
        assert refused.headers["retry-after"]
        assert put(hub, Machine("w2"), service=_service(hub, "w2")).status == 200
        for line in lines:
            line.close()
        wait_until(lambda: put(hub, Machine("w1"), service=service).status == 200, "its places are free again")


def test_a_busy_hub_is_asked_again_by_the_node_until_it_has_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OBJECT_BODIES_PER_CALLER", 1)
    with hub_of_four(tmp_path / "backups") as hub:
        service = _service(hub, "w1")
        contents = [bytes_of(f"{number}", 3 * MIB) for number in range(4)]

        async def live() -> None:
            target = target_of(hub.url, hub.hub_key, hub.fleet_id, "w1")
            await asyncio.gather(*(target.put(pack(one, hub.fleet_id, service), one) for one in contents))
            assert len(await target.list(f"{hub.fleet_id[:16]}/{service}/")) == 4
            monkeypatch.setattr(limits, "OBJECT_BODIES_PER_CALLER", 0)
            monkeypatch.setattr(hub_target, "BUSY_S_MAX", 1.0)
            with pytest.raises(Limited):
                await target.put(pack(OBJECT, hub.fleet_id, service), OBJECT)
            await target.close()

        asyncio.run(asyncio.wait_for(live(), 100))


def _service(hub: Served, node: str) -> str:
    applied = hub.parts.hub.applied()
    assert applied is not None
    return next(name for name, entry in applied.table.of_kind("service").items() if entry.node == node)


# ---- killed


def test_a_hub_that_is_killed_during_uploads_has_whole_objects_only_and_takes_the_rest_later(tmp_path: Path) -> None:
    """kill -9 at random moments: no put that returned is lost, and none that did not is half there."""
    place, dice = tmp_path / "backups", random.Random(7)
    contents = [bytes_of(f"{number}", 2 * MIB + number) for number in range(60)]
    stored: set[str] = set()
    killed = 0
    for _ in range(8):
        with hub_process(place) as hub:
            keys = {pack(one, hub.fleet_id, "web"): one for one in contents}
            left = [key for key in keys if key not in stored]
            if not left:
                break
            killed += asyncio.run(asyncio.wait_for(_until_killed(hub, keys, left, stored, dice), 120))
        for name, content in files_in(place).items():
            assert sha256(content).hexdigest() == name[-64:], "half an object is visible"
        assert stored <= files_in(place).keys(), "a put that returned is lost"
    assert killed >= 3
    with hub_process(place) as hub:

        async def rest() -> None:
            target = hub.target("web")
            keys = {pack(one, hub.fleet_id, "web"): one for one in contents}
            there = await target.has(keys)
            assert stored <= there
            for key in keys.keys() - there:
                await target.put(key, keys[key])
            assert await target.has(keys) == keys.keys()
            await target.close()

        asyncio.run(asyncio.wait_for(rest(), 120))


async def _until_killed(
    hub: HubProcess, keys: dict[str, bytes], left: list[str], stored: set[str], dice: random.Random
) -> bool:
    target = hub.target("web")

    async def upload(mine: list[str]) -> None:
        for key in mine:
            await target.put(key, keys[key])
            stored.add(key)

    async def kill() -> None:
        await asyncio.sleep(dice.uniform(0.02, 0.5))
        hub.kill()

    results = await asyncio.gather(upload(left[::2]), upload(left[1::2]), kill(), return_exceptions=True)
    await target.close()
    return any(isinstance(one, Exception) for one in results)


def test_a_hub_that_is_away_is_missing_within_five_seconds_h49(tmp_path: Path) -> None:
    with hub_process(tmp_path / "backups") as hub:

        async def live() -> None:
            target = hub.target("web")
            assert (await target.look()).state == "attached"
            hub.kill()
            watch = Stopwatch()
            assert (await target.look()).state == "missing"
            assert watch.within(5)
            await target.close()

        asyncio.run(asyncio.wait_for(live(), 60))


def test_a_node_that_was_revoked_is_refused_and_the_target_says_so(tmp_path: Path) -> None:
    with hub_of_four(tmp_path / "backups") as hub:

        async def live() -> None:
            target = target_of(hub.url, hub.hub_key, hub.fleet_id, "w1")
            assert (await target.look()).state == "attached"
            hub.revoked("w1")
            assert (await target.look()).state == "refused"
            with pytest.raises(NotPermitted):
                await target.put(pack(OBJECT, hub.fleet_id, "web"), OBJECT)
            await target.close()

        asyncio.run(asyncio.wait_for(live(), 60))
        assert files_in(tmp_path / "backups") == {}


def test_the_state_of_a_store_is_what_its_disk_says(tmp_path: Path) -> None:
    small = BackupStore(MemoryObjects(100 * MIB), any_receipt).state()
    assert small.state == "attached" and small.free_bytes == 36 * MIB
    assert BackupStore(MemoryObjects(70 * MIB), any_receipt).state().state == "full"
    (tmp_path / "file").touch()
    assert BackupStore(StoreDirectory(str(tmp_path / "file")), any_receipt).state().state == "failing"
    assert msgspec.json.encode(small) == b'{"state":"attached","free_bytes":37748736}'


def test_bytes_that_are_being_written_count_as_taken() -> None:
    class Slow(MemoryObjects):
        def put(self, key: BackupKey, content: bytes | bytearray) -> bool:
            with pytest.raises(Failed):
                store.put(other, CONTENTS[1], Principal("node", "w1"), ["web"], 1)
            return super().put(key, content)

    contents = CONTENTS
    store = BackupStore(Slow(64 * MIB + 3 * MIB), any_receipt)
    other = backup_key.parse(pack(contents[1]))
    assert store.put(backup_key.parse(pack(contents[0])), contents[0], Principal("node", "w1"), ["web"], 1)


def test_what_is_written_and_deleted_counts_for_the_share_of_its_node() -> None:
    node, content = Principal("node", "w1"), bytes_of("first", 2 * MIB)
    objects = MemoryObjects(1024 * MIB)
    store = BackupStore(objects, any_receipt, lambda key: True)
    first = backup_key.parse(pack(content))
    assert store.put(first, content, node, ["web"], 2)
    assert store._services(first.fleet) == {"web": 2 * MIB}
    assert not store.put(first, content, node, ["web"], 2) and store._services(first.fleet) == {"web": 2 * MIB}
    store.delete(first, node)
    assert store._services(first.fleet) == {"web": 0} and not objects.objects


CONTENTS = [bytes_of("one", 2 * MIB), bytes_of("two", 2 * MIB)]
