"""Handlers of needs: one login for each generation, one resource for all; every verb may be repeated (F-50, I-36)."""

import asyncio
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec
import psycopg
import pytest

from holdfast.adapters.need_handler.memory import Killed, MemoryHandler
from holdfast.adapters.need_handler.postgres import PostgresHandler
from holdfast.adapters.need_handler.program import ProgramHandler
from holdfast.adapters.process.process import with_argument
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.model.need import Grantee
from holdfast.ports.need_handler import NeedHandler, Refused, Setting, Silent
from tests.fleets.ports import free_port
from tests.fleets.postgres_server import ADMIN, ADMIN_PASSWORD, PostgresServer, postgres_server, visible
from tests.fleets.waiting import wait_until

PROGRAM = """#!/usr/bin/python3 -I
import json, sys
asked = json.load(sys.stdin)
try:
    with open("STATE") as file:
        state = json.load(file)
except FileNotFoundError:
    state = {"logins": {}, "resources": [], "count": 0}
if asked["secret"] != "program-canary-3c":
    print(json.dumps({"error": "a wrong secret", "retry": asked["secret"] == "silent"}))
    sys.exit(0)
logins, login, answer = state["logins"], asked["login"], {}
if asked["action"] == "grant":
    state["count"] += 1
    state["resources"] = sorted({*state["resources"], asked["resource"]})
    logins[login] = ["password-%d-of-a-program" % state["count"], True]
    answer = {"values": {"user": login, "password": logins[login][0], "database": asked["resource"]}}
elif asked["action"] == "revoke":
    logins.pop(login, None)
elif asked["action"] == "check":
    good = logins.get(login) == [asked["values"]["password"], True]
    answer = {"verdict": "good" if good else "refused"}
elif asked["action"] == "enable" and login not in logins:
    answer = {"error": "there is no such login", "retry": False}
elif login in logins:
    logins[login][1] = asked["action"] == "enable"
with open("STATE", "w") as file:
    json.dump(state, file)
print(json.dumps(answer))
"""


def grantee(service: str, node: str = "w1", generation: int = 1) -> Grantee:
    return Grantee("fleet", service, "db", node, generation)


class Bench(Protocol):
    """A handler with its server, and what can be seen of them."""

    handler: NeedHandler
    by: Setting

    def connects(self, values: Mapping[str, str]) -> bool: ...
    def logins(self, of: Grantee) -> int: ...
    def resources(self, of: Grantee) -> int: ...
    def silent(self) -> Setting: ...
    def refusing(self) -> Setting: ...


class MemoryBench:
    def __init__(self) -> None:
        self.memory = MemoryHandler(SeededRandom(7))
        self.handler: NeedHandler = self.memory
        self.by = Setting({})

    def connects(self, values: Mapping[str, str]) -> bool:
        return self.memory.connect(values)

    def logins(self, of: Grantee) -> int:
        return [one.resource for one in self.memory.logins.values()].count(of.resource)

    def resources(self, of: Grantee) -> int:
        return len(self.memory.resources & {of.resource})

    def silent(self) -> Setting:
        self.memory.is_silent = True
        return self.by

    def refusing(self) -> Setting:
        self.memory.is_refused = True
        return self.by


class PostgresBench:
    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.handler: NeedHandler = PostgresHandler(SystemRandom())
        self.by = Setting({"address": server.address, "user": ADMIN}, ADMIN_PASSWORD.encode())

    def connects(self, values: Mapping[str, str]) -> bool:
        try:
            self.server.connected(values["user"], values["password"], values["database"]).close()
            return True
        except psycopg.OperationalError:
            return False

    def logins(self, of: Grantee) -> int:
        asked = "SELECT 1 FROM pg_auth_members WHERE roleid = %s::regrole AND member <> %s::regrole"
        return len(self.server.rows(asked, of.resource, ADMIN))

    def resources(self, of: Grantee) -> int:
        return len(self.server.rows("SELECT 1 FROM pg_database WHERE datname = %s", of.resource))

    def silent(self) -> Setting:
        return Setting({**self.by.params, "address": f"127.0.0.1:{free_port()}"}, self.by.secret)

    def refusing(self) -> Setting:
        return Setting(self.by.params, b"another password")


class ProgramBench:
    def __init__(self, folder: Path, state: Path) -> None:
        self.state = state / "state"
        self.handler: NeedHandler = ProgramHandler()
        self.by = program(folder, "handler", PROGRAM.replace("STATE", str(self.state)), b"program-canary-3c")

    def connects(self, values: Mapping[str, str]) -> bool:
        return bool(self._read()["logins"].get(values["user"]) == [values["password"], True])

    def logins(self, of: Grantee) -> int:
        return sum(name.startswith(of.service) for name in self._read()["logins"])

    def resources(self, of: Grantee) -> int:
        return list(self._read()["resources"]).count(of.resource)

    def silent(self) -> Setting:
        return Setting(self.by.params, b"silent")

    def refusing(self) -> Setting:
        return Setting(self.by.params, b"wrong")

    def _read(self) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = json.loads(self.state.read_text())
        return found


def program(folder: Path, name: str, text: str, secret: bytes = b"", **params: str) -> Setting:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    digest = sha256(text.encode()).hexdigest()
    fields = "user password database told"
    return Setting({"exec": str(path), "sha256": digest, "fields": fields, "user": "nobody", **params}, secret)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Of root alone, as are all directories above it."""
    made = Path(tempfile.mkdtemp(prefix="holdfast-test-", dir="/var/lib"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def state() -> Iterator[Path]:
    """Where a program of another user can write."""
    made = Path(tempfile.mkdtemp(prefix="holdfast-test-", dir="/tmp"))
    os.chown(made, 65534, 65534)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=["memory", "postgres", "program"])
def bench(request: pytest.FixtureRequest, folder: Path, state: Path) -> Bench:
    if request.param == "postgres":
        return PostgresBench(request.getfixturevalue("server"))
    return MemoryBench() if request.param == "memory" else ProgramBench(folder, state)


@pytest.fixture
def database(server: PostgresServer) -> PostgresBench:
    return PostgresBench(server)


# ---- every product


def test_a_second_grant_has_new_values_and_makes_nothing_else(bench: Bench) -> None:
    async def twice() -> tuple[Mapping[str, str], Mapping[str, str]]:
        to = grantee("again")
        return await bench.handler.grant(to, bench.by), await bench.handler.grant(to, bench.by)

    first, second = asyncio.run(twice())
    to = grantee("again")
    assert (second["user"], second["database"]) == (to.login, to.resource)
    assert bench.connects(second) and not bench.connects(first)
    assert (bench.logins(to), bench.resources(to)) == (1, 1)


def test_generations_are_logins_of_one_resource_and_go_alone(bench: Bench) -> None:
    old, new = grantee("moves", "w1", 1), grantee("moves", "w2", 2)

    async def story() -> None:
        handler, by = bench.handler, bench.by
        first, second = await handler.grant(old, by), await handler.grant(new, by)
        assert first["database"] == second["database"] and first["user"] != second["user"]
        assert bench.connects(first) and bench.connects(second)
        assert (bench.logins(old), bench.resources(old)) == (2, 1)
        for _ in range(2):
            await handler.revoke(old, by)
        assert await handler.check(old, by, first) == "refused" and await handler.check(new, by, second) == "good"
        await handler.revoke(new, by)
        assert (bench.logins(old), bench.resources(old)) == (0, 1)

    asyncio.run(story())


def test_a_disabled_login_is_refused_until_it_is_enabled(bench: Bench) -> None:
    to = grantee("pauses")

    async def story() -> None:
        handler, by = bench.handler, bench.by
        values = await handler.grant(to, by)
        for _ in range(2):
            await handler.disable(to, by)
        assert not bench.connects(values) and await handler.check(to, by, values) == "refused"
        for _ in range(2):
            await handler.enable(to, by)
        assert bench.connects(values) and await handler.check(to, by, values) == "good"

    asyncio.run(story())


def test_a_login_that_does_not_exist_can_be_taken_away_but_not_enabled(bench: Bench) -> None:
    to = grantee("absent")

    async def story() -> None:
        await bench.handler.grant(grantee("other"), bench.by)
        await bench.handler.disable(to, bench.by)
        await bench.handler.revoke(to, bench.by)
        with pytest.raises(Refused, match="no such login"):
            await bench.handler.enable(to, bench.by)

    asyncio.run(story())


def test_silence_is_told_from_a_refusal(bench: Bench) -> None:
    to = grantee("silent")

    async def story() -> None:
        values = await bench.handler.grant(to, bench.by)
        assert bench.connects(values)
        with pytest.raises(Refused):
            await bench.handler.grant(to, bench.refusing())
        with pytest.raises(Silent):
            await bench.handler.grant(to, bench.silent())

    asyncio.run(story())


def test_silence_says_nothing_about_a_login(bench: Bench) -> None:
    values = asyncio.run(bench.handler.grant(grantee("unheard"), bench.by))
    assert asyncio.run(bench.handler.check(grantee("unheard"), bench.silent(), values)) == "unknown"


# ---- in memory


@pytest.mark.parametrize("verb", ["grant", "revoke", "disable", "enable"])
def test_a_verb_that_was_cut_off_anywhere_can_be_repeated(verb: str) -> None:
    steps = 0
    while True:
        bench = MemoryBench()
        values = asyncio.run(bench.handler.grant(grantee("cut"), bench.by))
        asyncio.run(bench.handler.disable(grantee("cut"), bench.by))
        bench.memory.killed_after = steps

        def call(bench: MemoryBench = bench) -> object:
            return asyncio.run(getattr(bench.handler, verb)(grantee("cut"), bench.by))

        try:
            found = call()
            break
        except Killed:
            found, steps = call(), steps + 1
        assert bench.logins(grantee("cut")) == (verb != "revoke") and bench.resources(grantee("cut")) == 1
        now = found if verb == "grant" else values
        assert isinstance(now, Mapping) and bench.connects(now) == (verb in ("grant", "enable"))
    assert steps >= 2


def test_a_disabled_login_of_the_twin_has_no_connection() -> None:
    bench = MemoryBench()
    values = asyncio.run(bench.handler.grant(grantee("web"), bench.by))
    assert bench.connects(values) and bench.memory.logins[values["user"]].connections == 1
    asyncio.run(bench.handler.disable(grantee("web"), bench.by))
    assert bench.memory.logins[values["user"]].connections == 0
    assert bench.memory.calls == [("grant", values["user"]), ("disable", values["user"])]


def test_grantees_reach_a_program_whole(folder: Path) -> None:
    text = (
        "#!/usr/bin/python3 -I\nimport json, sys\nprint(json.dumps({'values': {'told': sys.stdin.read().strip()}}))\n"
    )
    by = program(folder, "tells", text, b"a secret")
    to = msgspec.structs.replace(grantee("web"), params={"size": "big"}, epoch=4)
    told = json.loads(asyncio.run(ProgramHandler().grant(to, by))["told"])
    assert told == {
        "action": "grant", "fleet": "fleet", "service": "web", "need": "db", "node": "w1", "generation": 1, "epoch": 4,
        "params": {"size": "big"}, "login": to.login, "resource": to.resource, "secret": "a secret", "values": {},
    }  # fmt: skip


# ---- programs


PROBE = """#!/usr/bin/python3 -I
import json, os, resource, socket, sys
json.load(sys.stdin)
with open("/proc/self/status") as file:
    status = dict(line.split(":\\t", 1) for line in file.read().splitlines())
try:
    socket.create_connection(("127.0.0.1", PORT), 2).close()
    network = "reached"
except OSError as trouble:
    network = "none"
told = {
    "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getgroups()], "environment": dict(os.environ),
    "files": sorted(int(name) for name in os.listdir("/proc/self/fd")), "from": sys.argv[0], "at": os.getcwd(),
    "network": network, "privileges": status["NoNewPrivs"], "capabilities": status["CapEff"], "session": os.getsid(0),
    "limits": [resource.getrlimit(getattr(resource, "RLIMIT_" + kind))[1] for kind in LIMITS],
}
print(json.dumps({"values": {"told": json.dumps(told)}}))
"""
LIMITS = ("CPU", "AS", "NOFILE", "NPROC", "FSIZE", "CORE")
SAYS = """#!/bin/sh
cat >/dev/null
printf '%s' 'TEXT'
exit CODE
"""


def says(folder: Path, text: str, code: int = 0, secret: bytes = b"") -> Setting:
    return program(folder, "says", SAYS.replace("TEXT", text).replace("CODE", str(code)), secret)


def grant(by: Setting, within_s: float = 30.0) -> Mapping[str, str]:
    return asyncio.run(ProgramHandler(within_s=within_s).grant(grantee("web"), by))


@pytest.fixture
def groups() -> Iterator[None]:
    """An agent that is a member of a group."""
    before = os.getgroups()
    os.setgroups([4])
    yield
    os.setgroups(before)


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("network", ["off", "on"])
def test_a_program_has_no_power_and_no_network_unless_it_is_declared_f_50(folder: Path, network: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        text = PROBE.replace("PORT", str(listener.getsockname()[1])).replace("LIMITS", repr(LIMITS))
        told = json.loads(grant(program(folder, f"probe-{network}", text, network=network))["told"])
    assert told["ids"] == [65534, 65534, 65534, []] and int(told["capabilities"], 16) == 0
    assert told["privileges"] == "1" and told["at"] == "/"
    assert set(told["environment"]) <= {"LC_CTYPE"}, "which the interpreter sets itself"
    assert told["network"] == ("reached" if network == "on" else "none")
    assert told["limits"] == [20, 4 * 1024**3, 64, 64, 16 * 1024**2, 0]
    assert told["from"].startswith("/dev/fd/"), "the file that was looked at, whatever has its name now"
    assert len(told["files"]) == 5, "three, the script, and the directory that it lists"


def test_a_program_is_root_s_own_file_with_the_declared_digest_f_50(folder: Path, state: Path) -> None:
    good = program(folder, "good", "#!/bin/sh\nexit 0\n")
    path, digest = good.params["exec"], good.params["sha256"]
    writable, foreign, theirs, inside = (folder / name for name in ("writable", "foreign", "theirs", "link"))
    for made in (writable, theirs):
        shutil.copy(path, made)
    writable.chmod(0o775)
    os.chown(theirs, 65534, 0)
    foreign.mkdir()
    shutil.copy(path, foreign / "good")
    foreign.chmod(0o777)
    (folder / "to-good").symlink_to(path)
    inside.symlink_to(folder)
    shutil.copy(path, state / "good")
    os.mkfifo(folder / "pipe")
    refused = {
        "not the one": {"sha256": "0" * 64},
        "can be written by others": {"exec": str(writable)},
        "does not belong to root": {"exec": str(theirs)},
        "foreign can be written": {"exec": str(foreign / "good")},
        "to-good is missing or a link": {"exec": str(folder / "to-good")},
        "link is missing or a link": {"exec": str(inside / "good")},
        "/tmp can be written": {"exec": str(state / "good")},
        "not absolute and plain": {"exec": f"{folder}/../{folder.name}/good"},
        "not a file": {"exec": str(folder / "pipe")},
        "missing": {"exec": str(folder / "none")},
        "params.exec": {"exec": "good"},
        "params.sha256": {"sha256": digest.upper()},
        "params.network": {"network": "some"},
        "params.user": {"user": "--root"},
        "root or the agent's own user": {"user": "root"},
        "no user absent-user": {"user": "absent-user"},
    }

    async def each(why: str, params: Mapping[str, str]) -> None:
        with pytest.raises(Refused, match=re.escape(why)):
            await handler.grant(grantee("web"), Setting({**good.params, **params}))

    async def all_of_them() -> None:
        await asyncio.gather(*(each(why, params) for why, params in refused.items()))

    handler = ProgramHandler()
    asyncio.run(all_of_them())


def test_an_agent_that_is_not_root_runs_no_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by = says(folder, "{}")
    monkeypatch.setattr("holdfast.adapters.need_handler.program.os.geteuid", lambda: 1000)
    with pytest.raises(Refused, match="only an agent that is root"):
        grant(by)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not one JSON object"),
        ("[]", "not one JSON object"),
        ("{} {}", "not one JSON object"),
        ('{"values":{},"values":{"told":"x"}}', "not one JSON object"),
        ('{"more":1}', "not one JSON object"),
        ('{"verdict":"dead"}', "not one JSON object"),
        ("[" * 60000, "not one JSON object"),
        ("x" * 65537, "longer than 65,536 bytes"),
        ('{"values":{"other":"x"}}', "the field other"),
        ('{"values":{"told":"a\\nb"}}', "cannot be printed"),
        ("{}", "not an object of fields"),
        ('{"error":"no room\\u001b[2J"}', "no room?"),
        ('{"error":"secret-canary-88 is wrong"}', "has a value in it"),
    ],
    ids=lambda text: text[:20],
)
def test_an_answer_of_another_form_is_refused(folder: Path, text: str, why: str) -> None:
    with pytest.raises(Refused, match=re.escape(why)) as refused:
        grant(says(folder, text, secret=b"secret-canary-88"))
    assert "secret-canary-88" not in str(refused.value.args)


def test_a_program_that_fails_is_silent(folder: Path) -> None:
    with pytest.raises(Silent, match="ended with 3"):
        grant(says(folder, "{}", 3))
    with pytest.raises(Silent, match="try later"):
        grant(says(folder, '{"error":"try later","retry":true}'))
    with pytest.raises(Silent, match="ended with 137"):
        grant(program(folder, "dies", "#!/bin/sh\nkill -9 $$\n"))


def test_a_program_is_killed_at_its_deadline_with_all_that_left_its_group(folder: Path) -> None:
    """Its secret is in no argument and no environment while it runs."""
    mark = f"4711.{os.getpid()}"
    text = f"#!/bin/sh\nsetsid sh -c 'setsid sleep {mark} & exec sleep {mark}' & exec sleep {mark}\n"
    by = program(folder, "stays", text, b"secret-canary-88")

    async def story() -> None:
        running = asyncio.create_task(ProgramHandler(within_s=3.0).grant(grantee("web"), by))
        await asyncio.to_thread(wait_until, lambda: len(with_argument(mark)) == 3, "it runs")
        assert visible("secret-canary-88") == []
        with pytest.raises(Silent, match="deadline"):
            await running

    asyncio.run(story())
    wait_until(lambda: with_argument(mark) == [], "all of it is gone")


def test_a_job_that_is_cancelled_at_any_moment_ends_at_once(folder: Path) -> None:
    """asyncio waits for ever for a process of its own that was cancelled while it was started."""
    mark = f"4712.{os.getpid()}"
    by = program(folder, "lasts", f"#!/bin/sh\nexec sleep {mark}\n")

    async def story() -> None:
        handler = ProgramHandler()
        for delay_s in (0.0, 0.001, 0.01, 0.1, 2.0):
            running = asyncio.create_task(handler.grant(grantee("web"), by))
            await asyncio.sleep(delay_s)
            running.cancel()
            done, _ = await asyncio.wait([running], timeout=20)
            assert done and running.cancelled()

    asyncio.run(story())
    wait_until(lambda: with_argument(mark) == [], "all of it is gone")
