"""The direct way of a move against hostile callers: the door answers one key, and everything is bounded (issue 16)."""

import asyncio
import itertools
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from holdfast.adapters.backup_target import pages
from holdfast.adapters.certificates import x509
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.move_lines import door as door_module
from holdfast.adapters.move_lines import wire
from holdfast.adapters.move_lines.line import Line
from holdfast.adapters.move_lines.spool import Files, Spool
from holdfast.adapters.move_lines.wire import Answer, Ask, Wire
from holdfast.adapters.tls.peer import PeerTls, key_of
from holdfast.errors import Failed, HoldfastError, Invalid, NotPermitted, TryLater, Unreachable
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.model.move import EPOCH, WORD_BYTES_MAX
from holdfast.ports.backup_target import StoredObject
from tests.fleets.backup_targets import FLEET, HOSTILE, HOSTILE_PREFIXES, bytes_of, files_in, mounted, pack
from tests.fleets.move_doors import SOURCE, TARGET, OpenDoor, is_listening, open_door
from tests.fleets.tls_peers import HOST, OURS, THEIRS, HubKey, named
from tests.fleets.waiting import PATIENCE_S, wait_until

EPOCH_NOW = 3
Moves = dict[str, Mapping[str, int]]


class Scene:
    """`moves`: key → services; w1 hands `web` over to the node whose door it is."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.moves: Moves = {SOURCE.line: {"web": EPOCH_NOW}}
        self.door: OpenDoor

    def callers(self, key: str) -> Mapping[str, int]:
        return self.moves.get(key, {})

    def pack(self, content: bytes, service: str = "web", epoch: int = EPOCH_NOW) -> str:
        return pack(content, FLEET, service, epoch)

    def stored(self) -> dict[str, bytes]:
        return files_in(self.place)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path / "moves")
    with open_door(made.place, made.callers) as made.door:
        yield made


def refused(line: Line, key: str, content: bytes, families: tuple[type[HoldfastError], ...] = (TryLater,)) -> str:
    async def attempt() -> str:
        with pytest.raises(families) as trouble:
            await line.put(key, content)
        await line.close()
        return trouble.value.code

    return asyncio.run(attempt())


def put(line: Line, key: str, content: bytes) -> None:
    async def done() -> None:
        await line.put(key, content)
        await line.close()

    asyncio.run(done())


# ---- who may call


@pytest.mark.parametrize("caller", [OURS, THEIRS, TARGET, named("node w3"), named("w1 of another fleet")])
def test_a_caller_with_another_key_gets_no_byte(scene: Scene, caller: HubKey) -> None:
    """The hub's key, a node's of another fleet, another node's of this one, and the door's own."""
    refused(scene.door.line(caller), scene.pack(b"x"), b"x")
    assert scene.stored() == {}
    with pytest.raises(OSError):
        scene.door.line(caller)._connected()


def ahead_of(key: HubKey) -> bytes:
    der = PeerTls(key.file, SystemClock()).calling(TARGET.line)[1]
    return struct.pack(">H", len(der)) + der


def test_the_certificate_of_the_source_alone_opens_nothing(scene: Scene) -> None:
    """It is sent in the open, so that anyone may have it: the handshake needs its private key."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    for shown in (None, named("a thief")):
        with socket.create_connection((HOST, scene.door.port), PATIENCE_S) as plain:
            plain.sendall(ahead_of(SOURCE))
            if shown is not None:
                client = PeerTls(shown.file, SystemClock()).calling(TARGET.line)[0]
            with pytest.raises((OSError, EOFError)), client.wrap_socket(plain) as inside:
                line = Wire(inside)
                line.within(PATIENCE_S)
                line.send(Ask("put", scene.pack(b"x"), size_bytes=1), b"x")
                line.receive(Answer)
    assert scene.stored() == {}
    put(scene.door.line(), scene.pack(b"x"), b"x")
    assert len(scene.stored()) == 1


def test_a_certificate_that_another_key_signed_names_no_key() -> None:
    """The key in it is not proven by it, whichever the handshake then proves."""
    own, other = (x509.private_key(one.file) for one in (SOURCE, named("an issuer")))
    name = x509.common_name("holdfast-node")
    begun = x509.begun(name, name, own.public_key(), SystemClock().now_s(), 2.0)
    assert key_of(begun.sign(own, None).public_bytes(Encoding.DER)) == SOURCE.line
    assert key_of(begun.sign(other, None).public_bytes(Encoding.DER)) == ""


@pytest.mark.parametrize(
    "words",
    [b"", b"\x00\x00", b"\xff\xff" + bytes(70000), b"\x00\x05hello", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 9],
)
def test_bytes_that_are_no_certificate_get_no_answer(scene: Scene, words: bytes) -> None:
    with socket.create_connection((HOST, scene.door.port), PATIENCE_S) as line:
        line.settimeout(PATIENCE_S)
        with suppress(OSError):
            line.sendall(words)
            line.shutdown(socket.SHUT_WR)
            assert line.recv(100) == b""
    put(scene.door.line(), scene.pack(b"x"), b"x")


def test_a_machine_at_the_address_of_the_target_gets_nothing(scene: Scene) -> None:
    assert refused(scene.door.line(expected=THEIRS), scene.pack(b"x"), b"x", (Unreachable,)) == "wrong_peer"
    assert scene.stored() == {}


# ---- what a caller may do


def test_only_services_that_the_caller_hands_over_in_this_epoch(scene: Scene) -> None:
    scene.moves["another"] = {"mail": 1}
    word = b"a word"
    for key in (
        scene.pack(b"x", "mail"),
        scene.pack(b"x", epoch=EPOCH_NOW - 1),
        scene.pack(b"x", epoch=EPOCH_NOW + 1),
    ):
        assert refused(scene.door.line(), key, b"x", (NotPermitted,)) == "not_your_service"
    old = backup_key.receipt(FLEET, "web", (EPOCH_NOW - 1) * EPOCH + 1, word)
    assert refused(scene.door.line(), old, word, (NotPermitted,)) == "not_your_service"

    async def read() -> None:
        line = scene.door.line()
        for call in (line.list(f"{FLEET[:16]}/mail/"), line.list(f"{FLEET[:16]}/"), line.get(scene.pack(b"x", "mail"))):
            with pytest.raises((NotPermitted, Invalid)):
                await call
        await line.close()

    asyncio.run(read())
    assert scene.stored() == {}
    put(scene.door.line(), backup_key.receipt(FLEET, "web", EPOCH_NOW * EPOCH + 1, word), word)
    assert list(scene.stored().values()) == [word]


def test_a_line_that_is_open_ends_when_the_move_is_over(scene: Scene) -> None:
    async def story() -> None:
        line = scene.door.line()
        await line.put(scene.pack(b"1"), b"1")
        scene.moves.clear()
        with pytest.raises(TryLater):
            await line.put(scene.pack(b"2"), b"2")
        await line.close()

    asyncio.run(story())
    assert list(scene.stored().values()) == [b"1"]


def test_when_the_door_is_closed_nothing_listens_and_open_lines_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "moves")
    with open_door(scene.place, scene.callers) as scene.door:
        inside = connected(scene)
        assert asked(inside, Ask("look")).look is not None
        assert is_listening(scene.door.port)
    with pytest.raises((OSError, EOFError)):
        asked(inside, Ask("look"))
    inside.close()
    assert not is_listening(scene.door.port)
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "move-door"], "its threads end")


# ---- hostile words of a caller with the right key


def connected(scene: Scene) -> Wire:
    found = scene.door.line()._connected()
    found.within(PATIENCE_S)
    return found


def asked(line: Wire, ask: Ask, content: bytes = b"") -> Answer:
    line.within(PATIENCE_S)
    line.send(ask, content)
    return line.receive(Answer)


def test_keys_that_are_paths_reach_nothing(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"not yours")
    line = connected(scene)
    for text in HOSTILE:
        for ask in (Ask("put", text, size_bytes=1), Ask("get", text), Ask("delete", text), Ask("has", keys=(text,))):
            answer = asked(line, ask, b"x" if ask.verb == "put" else b"")
            assert answer.fault is not None and answer.fault.code in ("backup_key", "not_your_service"), (ask, answer)
    for text in HOSTILE_PREFIXES:
        assert asked(line, Ask("list", text)).fault is not None, text
    line.close()
    assert scene.stored() == {} and (tmp_path / "x").read_bytes() == b"not yours"


def test_other_bytes_than_the_key_says_are_not_stored(scene: Scene) -> None:
    line = connected(scene)
    for content in (b"other", b""):
        answer = asked(line, Ask("put", scene.pack(b"one"), size_bytes=len(content)), content)
        assert answer.fault is not None
    line.close()
    assert scene.stored() == {}


@pytest.mark.parametrize(
    "words",
    [
        struct.pack(">I", wire.HEAD_BYTES_MAX + 1),
        struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", 2) + b"{}",
        struct.pack(">I", 4) + b"null",
        struct.pack(">I", 8) + b"\xff" * 8,
        struct.pack(">I", 14) + b'{"verb":"rm"}x',
        *(
            struct.pack(">I", len(head)) + head
            for head in (
                msgspec.json.encode({"verb": "put", "key": "k", "size_bytes": OBJECT_BYTES_MAX + 1}),
                msgspec.json.encode({"verb": "put", "key": "k", "size_bytes": -1}),
                msgspec.json.encode({"verb": "put", "key": "k", "size_bytes": 2**63}),
                msgspec.json.encode({"verb": "look", "more": 1}),
            )
        ),
    ],
)
def test_a_malformed_or_oversize_message_ends_the_line(scene: Scene, words: bytes) -> None:
    line = connected(scene)
    line.write(words)
    began_s = time.monotonic()
    with pytest.raises((EOFError, OSError)):
        line.receive(Answer)
    assert time.monotonic() - began_s < wire.STALL_S * 0.75, "it waited for the bytes that were announced"
    line.close()
    put(scene.door.line(), scene.pack(b"x"), b"x")


def test_a_word_has_no_data_in_it(scene: Scene) -> None:
    word = bytes(WORD_BYTES_MAX + 1)
    key = backup_key.receipt(FLEET, "web", EPOCH_NOW * EPOCH + 1, word)
    assert refused(scene.door.line(), key, word, (Invalid,)) == "body_too_large"


# ---- bounds


def test_callers_that_say_nothing_take_few_places_and_lose_them(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "HANDSHAKE_S", 1.5)
    with ExitStack() as closing:
        silent = [
            closing.enter_context(socket.create_connection((HOST, scene.door.port), PATIENCE_S))
            for _ in range(door_module.STRANGERS_MAX + 3)
        ]
        threads = [one for one in threading.enumerate() if one.name == "move-door"]
        assert len(threads) <= door_module.STRANGERS_MAX
        for line in silent:
            line.settimeout(PATIENCE_S)
            with suppress(ConnectionError):
                assert line.recv(1) == b""
    put(scene.door.line(), scene.pack(b"x"), b"x")


def test_a_caller_that_sends_a_byte_now_and_then_is_cut(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit over the whole message, not over the time between two bytes."""
    monkeypatch.setattr(door_module, "REQUEST_S", 2.0)
    line = connected(scene)
    line.send(Ask("put", scene.pack(bytes(1000)), size_bytes=1000))
    began_s = time.monotonic()
    with pytest.raises((OSError, EOFError)):
        for _ in range(1000):
            line.within(PATIENCE_S)
            line.write(b"\0")
            time.sleep(0.25)
    assert time.monotonic() - began_s < PATIENCE_S / 2
    line.close()
    assert scene.stored() == {}


def test_one_caller_has_few_connections(scene: Scene) -> None:
    lines = [connected(scene) for _ in range(door_module.CALLERS_MAX + 2)]

    def is_served(line: Wire) -> bool:
        try:
            return asked(line, Ask("look")).look is not None
        except (OSError, EOFError):
            return False

    assert sum(map(is_served, lines)) == door_module.CALLERS_MAX
    for line in lines:
        line.close()
    wait_until(lambda: is_served_again(scene), "there is a place again")


def is_served_again(scene: Scene) -> bool:
    line = scene.door.line()

    async def look() -> bool:
        try:
            return (await line.look()).state == "attached"
        finally:
            await line.close()

    return asyncio.run(look())


def test_a_full_disk_is_said_and_stores_nothing_in_part(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "36M", "tmpfs") as disk:
        scene = Scene(disk / "moves")
        with open_door(scene.place, scene.callers) as scene.door:
            taken = [bytes_of(f"{number}", 10_000_000) for number in range(3)]
            for content in taken:
                put(scene.door.line(), scene.pack(content), content)
            more = bytes_of("more", 7_500_000)  # it would fit, into what stays free
            assert refused(scene.door.line(), scene.pack(more), more, (Failed,)) == "no_space"
            assert set(scene.stored()) == {scene.pack(content) for content in taken}


# ---- what is kept, and what is told


def test_objects_of_a_move_that_is_over_are_deleted_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"kept")
    files = Files(str(tmp_path / "moves"))

    async def story() -> None:
        spool = Spool(files)
        for service in ("web", "mail"):
            await spool.put(pack(b"x", FLEET, service, 1), b"x")
        os.symlink(outside, tmp_path / "moves" / FLEET[:16] / "link")
        await asyncio.to_thread(files.drop_sent, {"mail"})
        assert [one.key for one in await spool.list(f"{FLEET[:16]}/")] == [pack(b"x", FLEET, "mail", 1)]
        await asyncio.to_thread(files.drop_sent, ())
        assert await spool.list(f"{FLEET[:16]}/") == []

    asyncio.run(story())
    assert (outside / "file").read_bytes() == b"kept"


def test_the_target_is_told_what_was_stored_and_read(scene: Scene) -> None:
    content = b"a word"
    key = backup_key.receipt(FLEET, "web", EPOCH_NOW * EPOCH + 1, content)
    put(scene.door.line(), key, content)
    wait_until(lambda: scene.door.heard == [("put", key)], "it is told")
    assert refused(scene.door.line(), scene.pack(b"y", "mail"), b"y", (NotPermitted,))
    wait_until(lambda: scene.door.heard == [("put", key), ("put", "")], "it is told that the source called")

    async def read() -> None:
        line = scene.door.line()
        assert await line.get(key) == content and await line.get(scene.pack(b"z")) is None
        await line.close()

    asyncio.run(read())
    wait_until(lambda: scene.door.heard[2:] == [("get", key), ("get", "")], "it is told that the source has read it")


def test_a_connection_that_ended_meanwhile_is_made_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "WAIT_S", 0.3)

    async def story() -> None:
        line = scene.door.line()
        await line.put(scene.pack(b"1"), b"1")
        await asyncio.sleep(1.5)
        await line.put(scene.pack(b"2"), b"2")
        await line.close()

    asyncio.run(story())
    assert len(scene.stored()) == 2


def test_without_a_door_the_answer_comes_within_seconds(tmp_path: Path) -> None:
    """Refused at once; and a machine that does not answer is given up within the two seconds of a connection."""
    scene = Scene(tmp_path / "moves")
    with open_door(scene.place, scene.callers) as scene.door:
        pass
    began_s = time.monotonic()
    refused(scene.door.line(), scene.pack(b"x"), b"x", (Unreachable,))
    with socket.create_server((HOST, 0), backlog=1) as mute:
        closing = [socket.create_connection((HOST, mute.getsockname()[1])) for _ in range(1)]
        line = OpenDoor(mute.getsockname()[1], tmp_path).line()
        refused(line, scene.pack(b"x"), b"x", (Unreachable,))
        for one in closing:
            one.close()
    assert time.monotonic() - began_s < 30


def digest_of(found: Mapping[str, bytes]) -> Any:
    return {key: sha256(content).hexdigest() for key, content in found.items()}


def test_many_large_objects_at_once_arrive_whole(scene: Scene) -> None:
    contents = [bytes_of(f"{number}", 3_000_000) for number in range(12)]

    async def story() -> None:
        line = scene.door.line()
        await asyncio.gather(*(line.put(scene.pack(one), one) for one in contents))
        await line.close()

    asyncio.run(story())
    assert digest_of(scene.stored()) == {scene.pack(one): sha256(one).hexdigest() for one in contents}


# ---- a target that answers what it likes


def ends_refused(scene: Scene) -> HoldfastError:
    async def attempt() -> HoldfastError:
        line = scene.door.line()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(HoldfastError) as trouble:
                await line.list(f"{FLEET[:16]}/web/")
        await line.close()
        return trouble.value

    return asyncio.run(attempt())


def test_an_answer_that_is_no_text_is_one_that_does_not_count(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The object then goes through the hub, as with a target that does not answer."""

    def said(self: Wire, head: object, content: object = b"") -> None:
        text = b'{"keys":["\xff"]}' if isinstance(head, Answer) else msgspec.json.encode(head)
        self.write(len(text).to_bytes(4, "big") + text)

    monkeypatch.setattr(Wire, "send", said)
    assert isinstance(ends_refused(scene), Unreachable)


def test_a_list_without_an_end_ends(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of the source is not the target's to fill."""
    monkeypatch.setattr(pages, "OBJECTS_MAX", 50)
    count = itertools.count()

    def endless(self: object, prefix: str, after: str, services: object) -> Answer:
        key = backup_key.receipt(FLEET, "web", next(count), b"word")
        return Answer(objects=(StoredObject(key, 1),), more=True)

    monkeypatch.setattr(door_module.Door, "_page", endless)
    assert ends_refused(scene).code == "too_many_objects"


def test_a_page_that_comes_again_is_the_last_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    key = backup_key.receipt(FLEET, "web", 1, b"word")
    page = Answer(objects=(StoredObject(key, 1),), more=True)
    monkeypatch.setattr(door_module.Door, "_page", lambda *_: page)

    async def listed() -> list[str]:
        line = scene.door.line()
        async with asyncio.timeout(PATIENCE_S):
            found = await line.list(f"{FLEET[:16]}/web/")
        await line.close()
        return [one.key for one in found]

    assert asyncio.run(listed()) == [key]
