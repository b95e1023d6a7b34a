"""Every DNS server of a node answers by what it was told last, for its own zone alone, and survives what life does to
it (T-11, C-20, M-79)."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from holdfast.adapters.name_server.dnsmasq import configuration, questions, server, zone_file
from holdfast.adapters.name_server.dnsmasq.daemon import Daemon
from holdfast.adapters.name_server.dnsmasq.questions import Questions
from holdfast.adapters.name_server.dnsmasq.server import Dnsmasq
from holdfast.adapters.name_server.memory import MemoryNameServer
from holdfast.adapters.process.process import Process, known, with_argument
from holdfast.errors import Failed, HoldfastError, Invalid, TryLater
from holdfast.ports.name_server import NameServer, Serving
from tests.fleets.waiting import wait_until

T = TypeVar("T")
ZONE = "holdfast.internal"
WEB, API = f"web.shop.{ZONE}", f"api.shop.{ZONE}"
ONE, TWO, SIX = "100.64.0.1", "100.64.0.2", "fd7a::6"


def own_address(beside: int = 0) -> str:
    """A loopback address that no other worker has: port 53 is free there."""
    return f"127.{53 + beside}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"


class Scene(Protocol):
    server: NameServer
    serving: Serving

    def answer(self, name: str) -> str: ...
    def freeze(self) -> None: ...
    def kill(self) -> None: ...


class MemoryScene:
    def __init__(self) -> None:
        self.memory = MemoryNameServer()
        self.server: NameServer = self.memory
        self.serving = Serving("100.64.0.1", ZONE)

    def answer(self, name: str) -> str:
        return self.memory.answer(name)

    def freeze(self) -> None:
        self.memory.freeze()

    def kill(self) -> None:
        self.memory.die()


class DnsmasqScene:
    def __init__(self, directory: Path, upstream: tuple[str, ...] = ("127.0.0.1",)) -> None:
        self.directory = directory
        self.server: NameServer = Dnsmasq(str(directory))
        self.serving = Serving(own_address(), ZONE, upstream)

    def reply(self, name: str, kind: str = "A") -> dns.message.Message:
        return dns.query.udp(dns.message.make_query(name, kind), self.serving.address, timeout=60)

    def answer(self, name: str) -> str:
        found = [data.to_text() for record in self.reply(name).answer for data in record]
        return found[0] if found else ""

    def processes(self) -> list[Process]:
        return with_argument(f"--conf-file={self.directory}/dnsmasq.conf")

    @property
    def process(self) -> Process:
        (found,) = self.processes()
        return found

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """A signal takes its moment on a busy machine."""
        process = self.process
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: known(process.pid) != process, "it is dead")

    def reload(self) -> None:
        os.kill(self.process.pid, signal.SIGHUP)


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Below one that others may enter: dnsmasq is not root when it reads."""
    path = Path("/tmp") / f"holdfast-dns-{os.getpid()}-{time.monotonic_ns()}"
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def real(directory: Path) -> Iterator[DnsmasqScene]:
    scene = DnsmasqScene(directory)
    yield scene
    for process in scene.processes():
        os.kill(process.pid, signal.SIGKILL)


@pytest.fixture(params=["memory", "dnsmasq"])
def scene(request: pytest.FixtureRequest) -> Scene:
    found: Scene = MemoryScene() if request.param == "memory" else request.getfixturevalue("real")
    return found


def do(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(story)


# ---- what every one does --------------------------------------------------------------------------------------------


def test_it_answers_by_what_was_applied_last_and_says_so(scene: Scene) -> None:
    """C-20: a set replaces the one before, a name that moved leads elsewhere, a name that left is gone."""

    async def story() -> None:
        await scene.server.follow(scene.serving)
        assert await scene.server.names() == {}
        for wanted in ({WEB: ONE, API: ONE}, {WEB: TWO}, {}):
            await scene.server.apply(wanted)
            assert await scene.server.names() == wanted
            assert {name: found for name in (WEB, API) if (found := scene.answer(name))} == wanted

    do(story())


def test_it_says_who_it_is_while_it_runs(scene: Scene) -> None:
    async def story() -> None:
        assert await scene.server.version() == ""
        await scene.server.follow(scene.serving)
        product, number = (await scene.server.version()).split()
        assert product in ("memory", "dnsmasq") and number
        scene.kill()
        assert await scene.server.version() == ""

    do(story())


def test_following_the_same_twice_is_the_same_as_once(scene: Scene) -> None:
    async def story() -> None:
        await scene.server.follow(scene.serving)
        await scene.server.apply({WEB: ONE})
        before = _life(scene)
        await scene.server.follow(scene.serving)
        assert _life(scene) == before and scene.answer(WEB) == ONE

    do(story())


def test_without_a_server_nobody_answers(scene: Scene) -> None:
    async def story() -> None:
        for _ in range(2):
            with pytest.raises(TryLater):
                await scene.server.names()
            with pytest.raises(TryLater):
                await scene.server.apply({WEB: ONE})
            await scene.server.follow(scene.serving)
            await scene.server.follow(None)
            await scene.server.follow(None)

    do(story())


def test_one_that_died_is_started_again_with_what_it_had(scene: Scene) -> None:
    async def story() -> None:
        await scene.server.follow(scene.serving)
        await scene.server.apply({WEB: ONE})
        scene.kill()
        with pytest.raises(TryLater):
            await scene.server.names()
        await scene.server.follow(scene.serving)
        assert await scene.server.names() == {WEB: ONE} and scene.answer(WEB) == ONE

    do(story())


def test_a_frozen_one_is_noticed_and_replaced(scene: Scene) -> None:
    async def story() -> None:
        await scene.server.follow(scene.serving)
        await scene.server.apply({WEB: ONE})
        scene.freeze()
        with pytest.raises(TryLater):
            await scene.server.names()
        await scene.server.follow(scene.serving)
        assert await scene.server.names() == {WEB: ONE} and scene.answer(WEB) == ONE

    do(story())


@pytest.mark.parametrize(
    "wrong",
    [
        {"example.test": ONE},  # not ours to answer for
        {f"x{ZONE}": ONE},
        {f"two words.{ZONE}": ONE},
        {f"line\nbreak.{ZONE}": ONE},
        {f"Upper.{ZONE}": ONE},
        {f"_serial.{ZONE}": ONE},
        {f"{'a' * 64}.{ZONE}": ONE},
        {WEB: "elsewhere"},
        {WEB: "100.64.0.1 evil"},
        {WEB: ""},
    ],
)
def test_what_a_server_would_misread_or_must_not_answer_is_refused(scene: Scene, wrong: dict[str, str]) -> None:
    async def story() -> None:
        await scene.server.follow(scene.serving)
        await scene.server.apply({API: ONE})
        with pytest.raises(Invalid):
            await scene.server.apply({API: TWO, **wrong})
        assert await scene.server.names() == {API: ONE}

    do(story())


def test_another_zone_begins_empty(scene: Scene) -> None:
    async def story() -> None:
        await scene.server.follow(scene.serving)
        await scene.server.apply({WEB: ONE})
        await scene.server.follow(Serving(scene.serving.address, "other.internal", scene.serving.upstream))
        assert await scene.server.names() == {}
        await scene.server.apply({"web.other.internal": TWO})
        assert scene.answer("web.other.internal") == TWO
        assert await scene.server.names() == {"web.other.internal": TWO}

    do(story())


def test_addresses_of_both_kinds(scene: Scene) -> None:
    async def story() -> None:
        await scene.server.follow(scene.serving)
        await scene.server.apply({WEB: ONE, API: SIX})
        assert await scene.server.names() == {WEB: ONE, API: SIX}

    do(story())
    if isinstance(scene, DnsmasqScene):
        assert [data.to_text() for record in scene.reply(API, "AAAA").answer for data in record] == [SIX]


def _life(scene: Scene) -> object:
    if isinstance(scene, DnsmasqScene):
        return scene.process
    assert isinstance(scene.server, MemoryNameServer)
    return scene.server.starts


# ---- dnsmasq alone --------------------------------------------------------------------------------------------------


class Counted(Questions):
    """Notes every name that is asked."""

    asked: ClassVar[list[str]] = []

    async def ask(self, name: str, *kind: Any) -> tuple[str, ...]:
        self.asked.append(name)
        return await super().ask(name, *kind)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(questions, "Questions", Counted)
    Counted.asked.clear()
    return Counted.asked


def test_a_process_is_asked_for_its_version_once_and_the_next_one_again(real: DnsmasqScene, asked: list[str]) -> None:
    async def story() -> None:
        for lives in (1, 2):
            await real.server.follow(real.serving)
            assert [(await real.server.version()).split()[0] for _ in range(3)] == ["dnsmasq"] * 3
            assert asked.count("version.bind") == lives
            real.kill()

    do(story())


def test_the_version_of_an_ended_process_is_not_told_for_one_that_does_not_answer(
    real: DnsmasqScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TRY_S", 0.1)

    async def story() -> None:
        await real.server.follow(real.serving)
        assert await real.server.version()
        real.kill()
        await Dnsmasq(str(real.directory)).follow(real.serving)  # by another agent
        real.freeze()
        assert await real.server.version() == ""

    do(story())


def test_a_process_that_has_just_answered_is_not_asked_twice_in_a_pass(
    real: DnsmasqScene, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "JUST_S", 60.0)

    async def story() -> None:
        await real.server.follow(real.serving)
        await real.server.names()
        before = len(asked)
        await real.server.follow(real.serving)
        assert len(asked) == before

    do(story())


def test_one_that_freezes_after_it_answered_is_replaced_by_a_later_pass(
    real: DnsmasqScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "JUST_S", 0.001)

    async def story() -> None:
        await real.server.follow(real.serving)
        await real.server.names()
        before = real.process
        real.freeze()
        await asyncio.sleep(0.01)
        await real.server.follow(real.serving)
        assert real.process != before and await real.server.names() == {}

    do(story())


def test_the_answer_of_one_process_does_not_count_for_the_next(
    real: DnsmasqScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "JUST_S", 60.0)

    async def story() -> None:
        await real.server.follow(real.serving)
        await real.server.names()
        real.kill()
        await Dnsmasq(str(real.directory)).follow(real.serving)  # by another agent
        other = real.process
        real.freeze()
        await real.server.follow(real.serving)
        assert real.process != other and await real.server.names() == {}

    do(story())


def test_the_answer_of_a_stranger_at_the_address_does_not_count_as_its_own(
    real: DnsmasqScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "JUST_S", 60.0)
    mark = Daemon.mark

    async def story() -> None:
        await real.server.follow(real.serving)
        first = real.process
        name, _ = mark(Daemon("", ""), first)
        monkeypatch.setattr(
            Daemon, "mark", lambda daemon, process: (name, "other") if process == first else mark(daemon, process)
        )
        with pytest.raises(TryLater):
            await real.server.names()
        await real.server.follow(real.serving)
        assert real.process != first and await real.server.names() == {}

    do(story())


def test_what_does_not_answer_the_query_is_not_taken_for_its_answer() -> None:
    """The right id, but another question; then the right question, and a record of another kind beside the address."""

    class Stranger:
        sent = 0

        def sendto(self, query: bytes) -> None:
            self.sent += 1
            asked = dns.message.from_wire(query)
            if self.sent == 1:
                asked = dns.message.make_query(API, "A", id=asked.id)
            answer = dns.message.make_response(asked)
            name = asked.question[0].name
            answer.answer = [
                dns.rrset.from_text(name, 1, "IN", "TXT", "text"),
                dns.rrset.from_text(name, 1, "IN", "A", TWO),
            ]
            asking.datagram_received(answer.to_wire(), None)

    stranger, asking = Stranger(), Questions("127.0.0.1:53", 5.0)
    asking._transport = stranger  # type: ignore[assignment]
    assert asyncio.run(asking.ask(WEB)) == (TWO,) and stranger.sent == 2


def test_two_thousand_records_take_less_than_a_second(real: DnsmasqScene) -> None:
    names = {f"c{n}.s{n}.{ZONE}": f"100.64.{n // 250}.{n % 250 + 1}" for n in range(2000)}

    async def story() -> list[float]:
        await real.server.follow(real.serving)
        await real.server.apply(names)
        took_s = []
        for n in range(5):  # the best of some: the machine may be busy with something else
            began_s = time.monotonic()
            await real.server.apply({**names, WEB: f"100.64.9.{n}"})
            took_s.append(time.monotonic() - began_s)
        assert len(await real.server.names()) == 2001
        return took_s

    assert min(do(story())) < 1.0


@contextmanager
def upstream() -> Iterator[list[str]]:
    """A DNS server elsewhere, which has an answer to everything; whom it was asked for."""
    asked: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((own_address(1), 53))

        def serve() -> None:
            while True:
                wire, sender = listener.recvfrom(4096)
                if wire == b"end":
                    return
                query = dns.message.from_wire(wire)
                asked.append(query.question[0].name.to_text(omit_final_dot=True))
                reply = dns.message.make_response(query)
                reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "203.0.113.7"))
                listener.sendto(reply.to_wire(), sender)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield asked
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ender:
                ender.sendto(b"end", (own_address(1), 53))
            thread.join(60)


def test_names_of_the_zone_are_never_asked_elsewhere_and_others_are(real: DnsmasqScene) -> None:
    """S09: who asks for an internal name that does not exist tells nobody outside."""

    async def story() -> None:
        await real.server.follow(Serving(real.serving.address, ZONE, (own_address(1),)))
        await real.server.apply({WEB: ONE})

    with upstream() as asked:
        do(story())
        for name in (f"nobody.{ZONE}", f"a.b.c.{ZONE}", "single"):
            assert real.reply(name).rcode() == dns.rcode.NXDOMAIN, name
        assert real.reply("1.0.168.192.in-addr.arpa", "PTR").rcode() == dns.rcode.NXDOMAIN
        assert real.reply(WEB, "AAAA").rcode() == dns.rcode.NOERROR
        assert asked == []
        assert real.answer("www.example.test") == "203.0.113.7" and asked == ["www.example.test"]


def test_answers_are_not_to_be_remembered(real: DnsmasqScene) -> None:
    async def story() -> None:
        await real.server.follow(real.serving)
        await real.server.apply({WEB: ONE})

    do(story())
    assert real.reply(WEB).answer[0].ttl == 0


def test_it_listens_at_its_own_address_and_nowhere_else_and_is_not_root(real: DnsmasqScene) -> None:
    do(real.server.follow(real.serving))
    pid = real.process.pid
    sockets = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if "socket:" in os.readlink(link)}
    bound = set()
    for table in ("tcp", "udp", "tcp6", "udp6"):
        for fields in map(str.split, Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]):
            if f"socket:[{fields[9]}]" in sockets:
                bound.add((table, fields[1]))
    here = "".join(f"{int(part):02X}" for part in reversed(real.serving.address.split(".")))
    assert bound == {("tcp", f"{here}:0035"), ("udp", f"{here}:0035")}
    assert os.stat(f"/proc/{pid}").st_uid != 0


@pytest.mark.parametrize("note", ["kept", "lost", "garbage"])
def test_the_next_agent_finds_the_one_that_runs(real: DnsmasqScene, note: str) -> None:
    """It outlives the agent; a note that is gone or damaged does not make a second one."""

    async def story() -> None:
        await real.server.follow(real.serving)
        await real.server.apply({WEB: ONE})
        before = real.process
        path = real.directory / "dnsmasq.conf.pid"
        if note == "lost":
            path.unlink()
        if note == "garbage":
            path.write_text("no number")
        other = Dnsmasq(str(real.directory))
        await other.follow(real.serving)
        assert real.process == before and await other.names() == {WEB: ONE}
        await other.apply({WEB: TWO})
        assert real.answer(WEB) == TWO
        await other.follow(None)
        assert real.processes() == [] and not real.directory.exists()

    do(story())


def test_a_process_that_has_the_noted_number_is_not_taken_for_ours(real: DnsmasqScene) -> None:
    async def story() -> None:
        with subprocess.Popen(["sleep", "1000"]) as other:
            process = known(other.pid)
            assert process is not None
            try:
                real.directory.mkdir()
                (real.directory / "dnsmasq.conf.pid").write_text(f"{process.pid} {process.started}\n")
                await real.server.follow(real.serving)
                await real.server.apply({WEB: ONE})
                await real.server.follow(None)
                assert other.poll() is None
            finally:
                other.kill()

    do(story())


def test_whoever_has_the_port_is_named_and_left_alone(real: DnsmasqScene, directory: Path) -> None:
    """Its answers are not taken for ours either."""
    other = DnsmasqScene(directory.with_name(directory.name + "-other"))

    async def story() -> None:
        await other.server.follow(other.serving)
        await other.server.apply({WEB: TWO})
        with pytest.raises(Failed) as told:
            await real.server.follow(real.serving)
        assert f"dnsmasq (pid {other.process.pid})" in told.value.message and "ss -lnutp" in told.value.remedy
        with pytest.raises(TryLater):
            await real.server.names()
        assert other.answer(WEB) == TWO
        await other.server.follow(None)
        await real.server.follow(real.serving)
        assert await real.server.names() == {}

    try:
        do(story())
    finally:
        for process in other.processes():
            os.kill(process.pid, signal.SIGKILL)
        shutil.rmtree(other.directory, ignore_errors=True)


def test_an_address_that_the_machine_does_not_have_is_waited_for(real: DnsmasqScene) -> None:
    with pytest.raises(TryLater) as told:
        do(real.server.follow(Serving("100.64.201.77", ZONE)))
    assert "does not have the address 100.64.201.77" in told.value.message and real.processes() == []


def test_a_missing_program_is_named_with_the_package(directory: Path) -> None:
    with pytest.raises(Failed) as told:
        do(Dnsmasq(str(directory), program="dnsmasq-of-nobody").follow(Serving(own_address(), ZONE)))
    assert told.value.remedy == "apt-get install dnsmasq-base"


@pytest.mark.parametrize("harm", ["records", "configuration", "everything"])
def test_lost_files_are_made_again(real: DnsmasqScene, harm: str) -> None:
    async def story() -> None:
        await real.server.follow(real.serving)
        await real.server.apply({WEB: ONE})
        if harm == "everything":
            shutil.rmtree(real.directory)
        else:
            (real.directory / {"records": "records", "configuration": "dnsmasq.conf"}[harm]).unlink()
        await real.server.follow(real.serving)
        assert await real.server.names() == {WEB: ONE}
        real.kill()
        await real.server.follow(real.serving)
        assert await real.server.names() == {WEB: ONE} and real.answer(WEB) == ONE

    do(story())


@pytest.mark.parametrize("content", ["", "garbage\n\0\n", f"{TWO} {WEB}\n", f"{ONE} {WEB}\n{TWO} evil.{ZONE}\n"])
def test_what_is_served_instead_is_told_truly(real: DnsmasqScene, content: str) -> None:
    """T-11: drift is found in what is answered, not in what was written."""

    async def story() -> None:
        await real.server.follow(real.serving)
        await real.server.apply({WEB: ONE})
        (real.directory / "records").write_text(content)
        assert await real.server.names() == {WEB: ONE}  # nobody told the process yet
        real.reload()
        truth = {name: found for name in (WEB, f"evil.{ZONE}") if (found := await _settled(real, name, content))}
        assert await real.server.names() == truth
        await real.server.apply({WEB: ONE})
        assert await real.server.names() == {WEB: ONE} and real.answer(f"evil.{ZONE}") == ""

    do(story())


async def _settled(real: DnsmasqScene, name: str, content: str) -> str:
    """What it answers once it has read that file."""
    expected = next((line.split()[0] for line in content.splitlines() if line.endswith(f" {name}")), "")
    for _ in range(6000):
        if real.answer(name) == expected:
            break
        await asyncio.sleep(0.01)
    return real.answer(name)


def test_a_directory_that_cannot_be_made_has_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HoldfastError) as told:
        do(Dnsmasq(str(tmp_path / "file" / "dns")).follow(Serving(own_address(), ZONE)))
    assert told.value.code == "disk_failed" and "ls -ld" in told.value.remedy


# ---- its texts ------------------------------------------------------------------------------------------------------


def test_the_configuration_reads_nothing_of_the_machine_but_its_resolv_conf() -> None:
    lines = configuration.text(Serving(ONE, ZONE), 53, "/run/x/records", "dnsmasq").decode().splitlines()
    assert {"no-hosts", "bind-interfaces", f"listen-address={ONE}", f"local=/{ZONE}/", "user=dnsmasq"} <= set(lines)
    assert "resolv-file=/etc/resolv.conf" in lines and not any(line.startswith(("dhcp", "interface")) for line in lines)
    told = configuration.text(Serving(ONE, ZONE, ("192.0.2.1",)), 53, "/run/x/records", "").decode().splitlines()
    assert {"no-resolv", "server=192.0.2.1"} <= set(told) and "resolv-file=/etc/resolv.conf" not in told


def test_a_file_is_read_only_if_it_is_whole() -> None:
    content = zone_file.written({WEB: ONE, API: SIX}, ZONE)
    assert zone_file.read(content, ZONE) == {WEB: ONE, API: SIX}
    assert zone_file.read(zone_file.written({}, ZONE), ZONE) == {}
    for wrong in (None, b"", content[:-1], content + b"x", content.replace(b"100.64.0.1", b"100.64.0.9")):
        assert zone_file.read(wrong, ZONE) is None


@pytest.mark.parametrize(
    "more",
    ["", ",+setgid,+setuid", ",+setgid,+setuid,+net_admin", ",+net_admin,+net_raw"],
    ids=["none", "those of another user", "without raw sockets", "without those of another user"],
)
def test_it_serves_with_no_right_but_the_one_to_its_port(tmp_path: Path, more: str) -> None:
    """As in the unit that ships with us: root there may become another user, but not keep capabilities then."""
    script = """
import asyncio, sys
from holdfast.adapters.name_server.dnsmasq.server import Dnsmasq
from holdfast.ports.name_server import Serving

async def story():
    server = Dnsmasq(sys.argv[1])
    await server.follow(Serving(sys.argv[2], "svc.test"))
    try:
        await server.apply({"a.svc.test": "100.64.0.1"})
        print(dict(await server.names()))
    finally:
        await server.follow(None)

asyncio.run(story())
"""
    rights = f"--bounding-set=-all,+dac_override,+kill,+net_bind_service{more}"
    done = subprocess.run(
        ["setpriv", rights, "--no-new-privs", sys.executable, "-c", script, str(tmp_path / "dns"), own_address()],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'a.svc.test': '100.64.0.1'}"


def test_a_cancellation_that_comes_with_the_answer_is_not_lost() -> None:
    """Otherwise an agent that is told to end goes on with its DNS records, and its process never ends."""

    class Server:
        """Its answer comes in the same turn of the loop as the cancellation."""

        asker: asyncio.Task[object]

        def sendto(self, query: bytes) -> None:
            answer = dns.message.make_response(dns.message.from_wire(query)).to_wire()
            asyncio.get_running_loop().call_later(0.01, self.answer, answer)

        def answer(self, content: bytes) -> None:
            asking.datagram_received(content, None)
            self.asker.cancel()

    server, asking = Server(), Questions("127.0.0.1:53", 5.0)
    asking._transport = server  # type: ignore[assignment]

    async def scene() -> None:
        server.asker = asyncio.ensure_future(asking.ask("web.internal.test"))
        await asyncio.wait([server.asker])
        assert server.asker.cancelled()

    asyncio.run(scene())
