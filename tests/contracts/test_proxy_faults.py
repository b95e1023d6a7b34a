"""What happens to a real Envoy: killed, frozen, robbed of its files, refused the disk. It goes on or comes back."""

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp
import msgspec
import pytest

from holdfast.adapters.process.process import Process, known, with_argument, with_variable
from holdfast.adapters.proxy.envoy import acknowledgement, supervisor
from holdfast.adapters.proxy.envoy.admin import Admin
from holdfast.adapters.proxy.envoy.files import LISTENERS, EnvoyFiles
from holdfast.adapters.proxy.envoy.process import EnvoyProcess
from holdfast.adapters.proxy.envoy.proxy import packaged_binary
from holdfast.adapters.proxy.envoy.state import STATE, State
from holdfast.errors import Failed, TryLater
from holdfast.ports.proxy import Listening
from tests.fleets.envoy_stage import PORTS, Stage, backend, stage
from tests.fleets.waiting import wait_until

WEB = "web.internal.test"
LISTENS = "0A"  # the kernel's word for it


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """For faults that leave nothing behind."""
    with stage(tmp_path_factory.mktemp("kept")) as found:
        yield found


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as found:
        yield found


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(240):
            await scene()

    asyncio.run(bounded())


async def until(question: Callable[[], Awaitable[bool] | bool]) -> None:
    """`play` bounds it."""
    while True:
        found = question()
        if found if isinstance(found, bool) else await found:
            return
        await asyncio.sleep(0.02)


def envoy(on: Stage) -> Process | None:
    return on.proxy._process.envoy()


def envoys(on: Stage) -> int:
    path = os.fsencode(str(on.folder / "proxy" / supervisor.BOOTSTRAP))
    found = 0
    for name in os.listdir("/proc"):
        with suppress(OSError):  # of another test, and gone by now
            if name.isdecimal() and known(int(name)) is not None:
                found += path in Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
    return found


async def answers(on: Stage, name: str) -> bool:
    async with on.client() as client:
        try:
            status, said = await client.get(WEB)
        except (OSError, aiohttp.ClientError):
            return False
        return status == 200 and said["name"] == name


# ---- processes


def test_a_killed_envoy_is_back_with_all_routes_without_any_agent(on: Stage) -> None:
    """I-01, M-116: the supervisor alone does it."""

    async def scene() -> None:
        async with backend("web") as web:
            await on.apply(on.route("web", web))
            before = envoy(on)
            assert before is not None
            os.kill(before.pid, signal.SIGKILL)
            await until(lambda: answers(on, "web"))
            assert envoy(on) != before and envoys(on) == 1
            assert await on.proxy.changed(0.0)
            assert list(await on.proxy.routes()) == [on.route("web", web)]

    play(scene)


def test_the_end_of_envoy_is_told_at_once_and_a_file_by_the_next_call_at_the_latest(kept: Stage) -> None:
    """An idle agent does not look at files right before its next pass, which looks at them anyway."""
    on = kept

    async def scene() -> None:
        async with backend("web") as web:
            await on.apply(on.route("web", web))
            assert not await on.proxy.changed(0.0)
            waiting = asyncio.create_task(on.proxy.changed(1.0))
            await asyncio.sleep(0.2)
            with open(on.folder / "proxy" / "clusters" / "all.json", "a", encoding="ascii") as file:
                file.write(" ")
            assert not await waiting
            assert await on.proxy.changed(0.0)
            await on.apply(on.route("web", web))
            assert not await on.proxy.changed(0.0)
            waiting = asyncio.create_task(on.proxy.changed(2.0))
            await asyncio.sleep(0.2)
            before = envoy(on)
            assert before is not None
            os.kill(before.pid, signal.SIGKILL)
            assert await waiting

    play(scene)


def test_a_killed_supervisor_is_replaced_and_nothing_else(on: Stage) -> None:
    """The Envoy that it kept is taken over, not doubled."""

    async def scene() -> None:
        async with backend("web") as web:
            await on.apply(on.route("web", web))
            before = envoy(on)
            folder = str(on.folder / "proxy")
            os.kill(supervisor.watching(folder), signal.SIGKILL)
            assert await on.proxy.changed(10.0)
            assert envoy(on) == before and await answers(on, "web")
            await on.proxy.follow(on.listening)
            await until(lambda: supervisor.watching(folder) != 0)
            for _ in range(25):  # as long as a second one would need to appear
                assert envoy(on) == before and envoys(on) == 1
                await asyncio.sleep(0.02)
            assert list(await on.proxy.routes()) == [on.route("web", web)]
            os.kill(before.pid if before else 0, signal.SIGKILL)
            await until(lambda: answers(on, "web"))

    play(scene)


AGENT = """
import asyncio, os, sys
from pathlib import Path
from tests.fleets.envoy_stage import Stage, backend
on = Stage(Path(sys.argv[1]))
on.internal, on.public, on.run_dir = sys.argv[2], sys.argv[3], Path(sys.argv[4])
on.proxy = on.another()
async def live():
    await on.proxy.follow(on.listening)
    await on.apply(on.route("web", int(sys.argv[5])))
    print("ready", flush=True)
    await asyncio.sleep(60)
asyncio.run(live())
"""


def test_it_outlives_its_agent_and_the_next_one_finds_it(tmp_path: Path) -> None:
    """I-01: killed like a computer that has had enough, not asked to end."""

    async def scene(on: Stage) -> None:
        async with backend("web") as web:
            where = (str(tmp_path), on.internal, on.public, str(on.run_dir), str(web))
            agent = await asyncio.create_subprocess_exec(
                sys.executable, "-c", AGENT, *where, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
            )
            assert agent.stdout is not None and await agent.stdout.readline() == b"ready\n"
            before = envoy(on)
            agent.kill()
            await agent.wait()
            assert before is not None and envoy(on) == before
            assert [route.service for route in await on.proxy.routes()] == ["web"]
            await on.proxy.follow(on.listening)
            assert envoy(on) == before and await answers(on, "web")

    made = Stage(tmp_path)
    try:
        play(lambda: scene(made))
    finally:
        made.close()


def test_two_agents_in_one_directory_have_one_proxy(tmp_path: Path) -> None:
    async def scene(on: Stage) -> None:
        others = [on.another() for _ in range(3)]
        on.proxy._prepare()
        for other in others:
            other._process.keep()  # each of them found nobody who holds the lock
        await on.proxy.follow(on.listening)
        for other in others:
            await other.follow(on.listening)
        assert envoys(on) == 1

    made = Stage(tmp_path)
    try:
        play(lambda: scene(made))
    finally:
        made.close()

    async def over() -> None:
        """Those who waited for the lock do not come after their directory is gone."""
        await until(lambda: with_argument(str(tmp_path / "proxy")) == [])

    play(over)


def test_both_processes_carry_the_mark_of_their_agent_and_go_when_told(tmp_path: Path) -> None:
    """T-34: nothing is left, no process and no file."""
    mark = f"HOLDFAST_TEST_MARK={tmp_path}"
    with stage(tmp_path, environ={**os.environ, "HOLDFAST_TEST_MARK": str(tmp_path)}) as on:
        assert len(with_variable(mark)) == 2
        asyncio.run(on.proxy.follow(None))
        assert with_variable(mark) == []
        assert not (tmp_path / "proxy").exists() and list(on.run_dir.iterdir()) == []


def test_somebody_elses_supervisor_is_waited_for(tmp_path: Path) -> None:
    """As with a systemd unit: the agent starts none of its own."""
    made = Stage(tmp_path, supervise=False)
    folder = tmp_path / "proxy"
    folder.mkdir(mode=0o700)
    unit = subprocess.Popen([sys.executable, "-I", "-S", supervisor.__file__, str(folder)])
    try:
        asyncio.run(made.proxy.follow(made.listening))
        assert supervisor.watching(str(folder)) == unit.pid
        asyncio.run(made.proxy.follow(None))
        assert unit.wait(timeout=60) == 0
    finally:
        unit.kill()
        unit.wait()
        made.close()


def test_after_a_boot_the_proxy_serves_before_any_agent_has_started(tmp_path: Path) -> None:
    """Its state survives a boot; the run directory, where its socket is, does not."""
    made = Stage(tmp_path, supervise=False)
    folder = tmp_path / "proxy"
    folder.mkdir(mode=0o700)
    words = [sys.executable, "-I", "-S", supervisor.__file__, str(folder)]
    unit = subprocess.Popen(words)

    async def scene() -> None:
        nonlocal unit
        async with backend("web") as web:
            await made.proxy.follow(made.listening)
            await made.apply(made.route("web", web))
            unit.kill()
            unit.wait()
            os.kill(supervisor.running(str(folder)), signal.SIGKILL)
            shutil.rmtree(made.run_dir)
            unit = subprocess.Popen(words)
            await until(lambda: answers(made, "web"))

    try:
        play(scene)
    finally:
        unit.terminate()
        unit.wait()
        made.close()


def test_another_program_with_the_pid_and_the_start_of_before_a_boot_is_neither_taken_for_envoy_nor_ended(
    tmp_path: Path,
) -> None:
    """The files survive a boot, pids and ticks since boot come again."""
    folder = tmp_path / "proxy"
    folder.mkdir()
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            for name in (supervisor.CHILD, supervisor.LOCK):
                supervisor.note(str(folder / name), other.pid)
            assert EnvoyProcess(str(folder), {}, supervise=False).envoy() is None
            assert supervisor.watching(str(folder)) == 0
            with subprocess.Popen([sys.executable, "-I", "-S", supervisor.__file__, str(folder)]) as unit:
                wait_until(lambda: supervisor.watching(str(folder)) == unit.pid, "it holds the lock")
                time.sleep(0.2)
                unit.terminate()
            assert other.poll() is None
        finally:
            other.kill()


def test_another_program_that_got_the_pid_of_an_ended_envoy_is_not_taken_for_it(tmp_path: Path) -> None:
    process = EnvoyProcess(str(tmp_path), {}, supervise=False)
    mine = known(os.getpid())
    assert mine is not None
    process._envoy = Process(mine.pid, mine.started - 1)
    assert process.envoy() is None


def test_a_supervisor_that_got_the_lock_while_the_directory_was_removed_ends(tmp_path: Path) -> None:
    """Its predecessor was told to end: there is no command, and nothing to keep."""
    folder = tmp_path / "proxy"
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-I", "-S", supervisor.__file__, str(folder)]) as second:
        try:
            wait_until(lambda: supervisor.noted(str(folder / supervisor.LOCK)) == second.pid, "it holds the lock")
            time.sleep(0.5)
            assert second.poll() is None, "a command may still come"
            shutil.rmtree(folder)
            assert second.wait(60) == 0
        finally:
            second.kill()


def test_the_supervisor_of_another_release_is_found_without_its_lock_file(tmp_path: Path) -> None:
    """Its script has another path. It has an order: one that has none ends when its lock file is gone."""
    script, folder = shutil.copy(supervisor.__file__, tmp_path), tmp_path / "proxy"
    folder.mkdir()
    (folder / supervisor.RUN).write_text('{"command": ["/bin/false"], "sockets": []}')
    with subprocess.Popen([sys.executable, "-I", "-S", script, str(folder)]) as other:
        try:
            wait_until(lambda: supervisor.noted(str(folder / supervisor.LOCK)) == other.pid, "it holds the lock")
            (folder / supervisor.LOCK).unlink()
            assert supervisor.watching(str(folder)) == other.pid
            assert supervisor.watching(str(tmp_path / "another")) == 0
        finally:
            other.kill()


def test_a_frozen_envoy_holds_nobody_up(kept: Stage) -> None:
    on = kept

    async def scene() -> None:
        await on.apply(on.route("web", 1))
        frozen = envoy(on)
        assert frozen is not None
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            assert list(await on.proxy.routes()) == []
            with pytest.raises(TryLater) as trouble:
                await on.apply(on.route("web", 2))
            assert trouble.value.code == "proxy_down"
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        await on.apply(on.route("web", 2))
        assert list(await on.proxy.routes()) == [on.route("web", 2)] and envoy(on) == frozen

    play(scene)


# ---- files


def spoil(path: Path) -> None:
    path.write_bytes(b"{")


def swap(path: Path) -> None:
    """As an editor does it: Envoy reads it at once."""
    new = path.with_name("edited")
    new.write_text(path.read_text().replace("internal.test", "elsewhere.test"))
    new.rename(path)


@pytest.mark.parametrize("hurt", [spoil, swap, Path.unlink])
@pytest.mark.parametrize("file", ["clusters/all.json", "listeners/all.json", "requests/internal.json", "secrets"])
def test_a_file_that_somebody_else_wrote_is_found_out_and_written_again(
    kept: Stage, file: str, hurt: Callable[[Path], None]
) -> None:
    """M-07, M-115: one writer; nothing diverges in silence."""
    on = kept

    async def scene() -> None:
        async with backend("web") as web:
            await on.apply(on.route("web", web))
            path = on.folder / "proxy" / file
            hurt(next(path.iterdir()) if path.is_dir() else path)
            assert await on.proxy.changed(10.0)
            assert list(await on.proxy.routes()) == []
            await on.apply(on.route("web", web))
            assert list(await on.proxy.routes()) == [on.route("web", web)]
            await until(lambda: answers(on, "web"))

    play(scene)


def test_rules_that_an_agent_of_another_release_wrote_meanwhile_are_written_again(kept: Stage) -> None:
    on = kept

    async def scene() -> None:
        await on.apply(on.route("web", 1))
        await on.proxy.follow(on.listening)
        path = on.folder / "proxy" / STATE
        state = msgspec.json.decode(path.read_bytes(), type=State)
        name = next(name for name in state.files if name.startswith("openers/"))
        files = {**state.files, name: msgspec.structs.replace(state.files[name], content="of another release")}
        path.write_bytes(msgspec.json.encode(msgspec.structs.replace(state, files=files)))
        await on.proxy.follow(on.listening)
        assert msgspec.json.decode(path.read_bytes(), type=State).files[name].content != "of another release"

    play(scene)


@pytest.mark.parametrize("also_killed", ["", "envoy", "supervisor"])
def test_a_directory_that_is_taken_away_is_made_again(on: Stage, also_killed: str) -> None:
    """M-116: everything is said again, and there is still one Envoy."""

    async def scene() -> None:
        async with backend("web") as web:
            await on.apply(on.route("web", web))
            before = envoy(on)
            assert before is not None
            killed = {"": 0, "envoy": before.pid, "supervisor": supervisor.watching(str(on.folder / "proxy"))}
            shutil.rmtree(on.folder / "proxy")
            if also_killed:
                os.kill(killed[also_killed], signal.SIGKILL)
            assert list(await on.proxy.routes()) == []
            await on.proxy.follow(on.listening)
            await on.apply(on.route("web", web))
            await until(lambda: answers(on, "web"))
            assert list(await on.proxy.routes()) == [on.route("web", web)] and envoys(on) == 1

    play(scene)


def test_an_envoy_that_dies_while_its_directory_is_made_again_is_started(on: Stage) -> None:
    """It lived when its files were looked for, so that none were written for the next one."""

    async def scene() -> None:
        async with backend("web") as web:
            await on.apply(on.route("web", web))
            before = envoy(on)
            assert before is not None
            os.kill(before.pid, signal.SIGSTOP)  # it lives, and does not answer
            shutil.rmtree(on.folder / "proxy")
            following = asyncio.ensure_future(on.proxy.follow(on.listening))
            await until((on.folder / "proxy" / supervisor.BOOTSTRAP).exists)
            os.kill(before.pid, signal.SIGKILL)
            await following
            await on.apply(on.route("web", web))
            await until(lambda: answers(on, "web"))
            assert list(await on.proxy.routes()) == [on.route("web", web)] and envoys(on) == 1

    play(scene)


def restore(directory: Path) -> None:
    """As from a backup: the same files, in other folders."""
    copied = directory.with_name("copied")
    shutil.copytree(directory, copied, symlinks=True)
    shutil.rmtree(directory)
    copied.rename(directory)


@pytest.mark.parametrize("agent", ["the same agent", "another agent"])
def test_x08_an_envoy_whose_directory_was_restored_is_restarted_from_its_files(on: Stage, agent: str) -> None:
    """It watches the folders that were deleted. Its supervisor noted which ones those were."""

    async def scene() -> None:
        async with backend("one") as one, backend("two") as two:
            await on.apply(on.route("web", one))
            before = envoy(on)
            restore(on.folder / "proxy")
            if agent == "another agent":
                on.proxy = on.another()
            assert envoy(on) == before and await answers(on, "one")
            assert list(await on.proxy.routes()) == []
            await on.proxy.follow(on.listening)
            await on.apply(on.route("web", two))
            assert envoy(on) != before and envoys(on) == 1
            assert list(await on.proxy.routes()) == [on.route("web", two)] and await answers(on, "two")
            after = envoy(on)
            await on.apply(on.route("web", one))
            assert envoy(on) == after and await answers(on, "one")

    play(scene)


def test_x08_a_folder_that_was_made_again_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    """File systems give a new folder the inode of a deleted one."""
    for name in supervisor.WATCHED:
        (tmp_path / name).mkdir()
    before = supervisor.identities(str(tmp_path))
    assert supervisor.identities(str(tmp_path)) == before
    (tmp_path / "secrets").rmdir()
    assert supervisor.identities(str(tmp_path)) != before
    (tmp_path / "secrets").mkdir()
    assert supervisor.identities(str(tmp_path)) != before


def test_x08_an_envoy_that_ignores_two_sets_is_restarted_with_the_one_before(
    on: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason is. Here: an older supervisor did not note which folders it watches."""

    async def scene() -> None:
        async with backend("one") as one, backend("two") as two:
            await on.apply(on.route("web", one))
            before = envoy(on)
            os.unlink(supervisor.watched_file(on.proxy._admin.socket))
            restore(on.folder / "proxy")
            with monkeypatch.context() as patched:
                patched.setattr(acknowledgement, "ACKNOWLEDGED_S", 0.3)
                for _ in range(2):
                    assert envoy(on) == before
                    with pytest.raises(TryLater) as ignored:
                        await on.apply(on.route("web", two))
                    assert ignored.value.code == "proxy_down" and "did not load new routes" in ignored.value.message
            await until(lambda: envoy(on) is not None)
            assert envoy(on) != before
            await until(lambda: answers(on, "one"))
            await on.apply(on.route("web", two))
            assert await answers(on, "two") and envoys(on) == 1

    play(scene)


def test_a_restart_begins_with_the_last_set_that_was_acknowledged(on: Stage) -> None:
    """An agent that died in the middle of a set, and an Envoy that died of it."""

    async def scene() -> None:
        async with backend("web") as web:
            await on.apply(on.route("web", web))
            EnvoyFiles(str(on.folder / "proxy")).put(LISTENERS, b'[{"@type": "nonsense"}]')
            before = envoy(on)
            os.kill(before.pid if before else 0, signal.SIGKILL)
            await until(lambda: answers(on, "web"))
            assert list(await on.proxy.routes()) == [on.route("web", web)]

    play(scene)


@contextmanager
def no_room() -> Iterator[None]:
    """Every write beyond a few bytes fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_takes_nothing_leaves_the_set_before_in_force(kept: Stage) -> None:
    on = kept

    async def scene() -> None:
        async with backend("one") as one, backend("two") as two:
            await on.apply(on.route("web", one))
            wanted = on.route("web", two)
            with no_room(), pytest.raises(Failed):
                await on.apply(wanted)
            assert list(await on.proxy.routes()) == [on.route("web", one)] and await answers(on, "one")
            await on.apply(wanted)
            assert await answers(on, "two")

    play(scene)


# ---- addresses


def test_other_addresses_are_followed_and_the_routes_stay(on: Stage) -> None:
    """M-13: a worker that becomes an edge, or stops being one, goes on serving meanwhile."""

    async def scene() -> None:
        async with backend("web") as web:
            await on.apply(on.route("web", web))
            await on.proxy.follow(Listening(on.internal))
            assert await answers(on, "web") and list(await on.proxy.routes()) == [on.route("web", web)]
            with pytest.raises(OSError):
                await asyncio.open_connection(on.public, PORTS[80])
            await on.proxy.follow(on.listening)
            assert await answers(on, "web")
            _, writer = await asyncio.open_connection(on.public, PORTS[80])
            writer.close()

    play(scene)


def test_nobody_can_ask_it_over_the_network(kept: Stage) -> None:
    """M-115: its admin door is a socket in a closed directory; it listens where it was told and nowhere else."""
    on = kept

    async def scene() -> None:
        await on.apply(on.route("web", 1))
        process = envoy(on)
        assert process is not None
        inodes = {os.readlink(path) for path in Path(f"/proc/{process.pid}/fd").iterdir() if path.is_symlink()}
        found = set()
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENS and f"socket:[{fields[9]}]" in inodes:
                    found.add(int(fields[1].rpartition(":")[2], 16))
        assert found == set(PORTS.values())

    play(scene)


def test_the_access_log_is_moved_on_before_it_fills_the_disk(on: Stage) -> None:
    """T-31: three are kept, and Envoy goes on in a new one."""

    async def scene() -> None:
        async with backend("web") as web:
            await on.apply(on.route("web", web))
            log = on.folder / "proxy" / "access.log"
            for number in range(4):
                assert await answers(on, "web")
                await until(lambda: log.exists() and log.stat().st_size > 0)
                os.truncate(log, supervisor.LOG_BYTES_MAX + 1 + number)
                size = supervisor.LOG_BYTES_MAX + 1
                await until(lambda size=size: not log.exists() or log.stat().st_size < size)  # type: ignore[misc]
            names = sorted(path.name for path in log.parent.glob("access.log*"))
            assert set(names) <= {"access.log", "access.log.1", "access.log.2", "access.log.3"}
            assert "access.log.3" in names

    play(scene)


@pytest.mark.parametrize("body", [b"", b"not JSON", b'{"stats": 1, "version": []}', b"[1]"])
def test_an_admin_answer_that_is_no_document_means_that_it_is_down(tmp_path: Path, body: bytes) -> None:
    """The keeper of the proxy asks again; it does not end by an error of its own."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
        writer.close()

    async def scene() -> None:
        admin = Admin(str(tmp_path / "admin.sock"))
        async with await asyncio.start_unix_server(answer, admin.socket):
            for question in (admin.version, admin.versions):
                with pytest.raises(TryLater) as refused:
                    await question()
                assert refused.value.code == "proxy_down"

    play(scene)


STARVED = """#!/bin/sh
# In a user namespace of its own, whose user may have no inotify instance.
exec unshare --user --map-root-user sh -c 'echo 0 > /proc/sys/user/max_inotify_instances; exec "$0" "$@"' {envoy} "$@"
"""


def test_an_envoy_without_inotify_instances_says_so(tmp_path: Path) -> None:
    """It aborts, and writes a list of addresses last. Labs and a machine with many proxies share 128 of them."""
    binary = tmp_path / "starved"
    binary.write_text(STARVED.format(envoy=packaged_binary()))
    binary.chmod(0o755)
    made = Stage(tmp_path / "stage", binary=str(binary))
    try:
        with pytest.raises(TryLater, match="has no inotify instances left") as found:
            asyncio.run(made.proxy.follow(made.listening))
        assert found.value.code == "proxy_down" and "UNKNOWN" not in found.value.message
        assert "sysctl -w fs.inotify.max_user_instances=" in found.value.remedy
    finally:
        made.close()
