"""A process that outlives the agent is found again by its file, and ended with patience."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.adapters.process import kept
from holdfast.adapters.process.kept import Kept
from holdfast.adapters.process.process import Process, age_s, arguments, known, with_argument
from holdfast.adapters.runtime.podman import service as podman_service
from holdfast.adapters.runtime.podman.service import Service
from tests.fleets.handles import none_left_open
from tests.fleets.waiting import wait_until

SLEEPS = ("sleep", "60")
DEAF = ("sh", "-c", "trap '' TERM; echo deaf; exec sleep 60")


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(str(tmp_path / "thing"), "sleep", "60")
    yield made
    if (process := made.child()) is not None:
        os.kill(process.pid, signal.SIGKILL)
        while made.child() is not None:
            time.sleep(0.01)


def later(tmp_path: Path) -> Kept:
    """As the next agent sees it."""
    return Kept(str(tmp_path / "thing"), "sleep", "60")


def begun(on: Kept, command: tuple[str, ...] = SLEEPS, **more: str) -> Process:
    on.start(command, {**os.environ, **more})
    process = on.child()
    assert process is not None
    while not any(arguments(process.pid)):  # its program has not begun yet
        time.sleep(0.001)
    return process


def test_the_next_agent_finds_it_by_a_file_of_two_numbers(first: Kept, tmp_path: Path) -> None:
    """Agents of other releases read this file: its name and form are fixed."""
    process = begun(first)
    assert (tmp_path / "thing.pid").read_text() == f"{process.pid} {process.started}\n"
    assert later(tmp_path).found() == [process] and later(tmp_path).child() is None


def test_a_process_that_only_has_the_same_pid_is_not_found(first: Kept, tmp_path: Path) -> None:
    process = begun(first)
    for text in (f"{process.pid} {process.started + 1}\n", f"{process.pid}", "", "a b"):
        (tmp_path / "thing.pid").write_text(text)
        assert kept.noted(str(tmp_path / "thing.pid")) is None


def test_a_process_that_has_the_pid_and_the_start_time_after_a_reboot_is_not_found(first: Kept, tmp_path: Path) -> None:
    """Both count from the boot, so that another one may have the same."""
    begun(first)
    assert Kept(str(tmp_path / "thing"), "sleep", "--conf-file=thing").found() == []


def test_without_its_file_it_is_found_by_its_program_and_its_command_line(first: Kept, tmp_path: Path) -> None:
    """The agent was killed before it wrote the file."""
    url = f"unix://{tmp_path}/thing"
    process = begun(first, (sys.executable, "-c", "import time; time.sleep(60)", "service", url))
    (tmp_path / "thing.pid").unlink()
    assert Kept(str(tmp_path / "thing"), sys.executable, "service", url).found() == [process]
    for program, words in (("podman", ("service", url)), (sys.executable, ("other", url)), (sys.executable, ("x",))):
        assert Kept(str(tmp_path / "thing"), program, *words).found() == []


def test_its_log_is_of_its_last_start_and_lacks_the_variables_of_systemd(first: Kept) -> None:
    for _ in range(2):
        process = begun(
            first, ("sh", "-c", "echo ${NOTIFY_SOCKET:-none} $KEPT; exec sleep 60"), NOTIFY_SOCKET="/x", KEPT="yes"
        )
        while not first.last_words():
            time.sleep(0.01)
        assert first.last_words() == "none yes"
        asyncio.run(kept.end(process, 30.0))


def test_it_is_apart_from_the_agent_and_all_it_says_is_in_a_private_log(first: Kept, tmp_path: Path) -> None:
    """In a session of its own, so that Ctrl-C in the agent's terminal does not end it; it cannot read that terminal."""
    ours = os.dup(0)
    reader, writer = os.pipe()
    os.write(writer, b"typed by the operator\n")
    try:
        os.dup2(reader, 0)
        process = begun(first, ("sh", "-c", "cat; echo trouble >&2; exec sleep 60"))
        os.close(writer)
        wait_until(lambda: "trouble" in first.last_words(), "it spoke")
    finally:
        os.dup2(ours, 0)
        for handle in (ours, reader):
            os.close(handle)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    assert first.last_words() == "trouble"
    assert (tmp_path / "thing.log").stat().st_mode & 0o777 == 0o600


def test_only_the_end_of_a_long_log_is_shown(first: Kept) -> None:
    begun(first, ("sh", "-c", "head -c 5000 /dev/zero | tr '\\0' x; echo; echo the end; exec sleep 60"))
    wait_until(lambda: first.last_words().endswith("the end"), "it spoke")
    assert len(first.last_words()) <= kept.WORDS_MAX


def test_a_file_that_cannot_be_written_does_not_end_the_start(first: Kept, tmp_path: Path) -> None:
    (tmp_path / "thing.pid.new").mkdir()
    assert begun(first) == first.child()


def test_one_that_listens_is_ended_and_reaped(first: Kept) -> None:
    process = begun(first)
    assert asyncio.run(kept.end(process, 30.0))
    assert first.child() is None and not os.path.exists(f"/proc/{process.pid}")


def test_one_that_ignores_the_signal_is_killed_after_the_time(first: Kept) -> None:
    process = begun(first, DEAF)
    while not first.last_words():
        time.sleep(0.01)
    began_s = time.monotonic()
    assert asyncio.run(kept.end(process, 0.2))
    assert time.monotonic() - began_s >= 0.2 and first.child() is None


def test_waiting_has_a_limit_and_a_stranger_with_its_pid_is_neither_waited_for_nor_signalled(first: Kept) -> None:
    process = begun(first)
    stranger, began_s = Process(process.pid, process.started + 1), time.monotonic()
    assert not asyncio.run(kept.ended(process, 0.05))
    assert asyncio.run(kept.ended(stranger, 60.0)) and asyncio.run(kept.end(stranger, 60.0))
    assert known(process.pid) == process and time.monotonic() - began_s < 30.0


def test_no_handle_stays_open(first: Kept) -> None:
    process = begun(first)
    with none_left_open():
        asyncio.run(kept.ended(process, 0.05))
        asyncio.run(kept.end(process, 30.0))


def test_its_age_is_the_time_since_its_start(first: Kept) -> None:
    assert 0.0 <= age_s(begun(first)) < 60.0 < age_s(Process(1, 0))


def test_what_is_forgotten_leaves_no_file(first: Kept, tmp_path: Path) -> None:
    asyncio.run(kept.end(begun(first), 30.0))
    first.forget()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_program_is_an_error_of_the_start(first: Kept) -> None:
    with pytest.raises(FileNotFoundError):
        first.start(["/no/such/program"], {})
    assert first.child() is None


# ---- podman's service, played by a program that listens after a moment

LISTENS = """
import socket, sys, time
time.sleep(1.0)
with socket.socket(socket.AF_UNIX) as line:
    line.bind(sys.argv[-1].removeprefix("unix://"))
    line.listen(100)
    time.sleep(60)
"""


def service(tmp_path: Path) -> Service:
    return Service(str(tmp_path / "podman.sock"), (sys.executable, "-c", LISTENS), os.environ)


def running(tmp_path: Path) -> list[Process]:
    return with_argument(f"unix://{tmp_path}/podman.sock")


def test_a_service_whose_agent_was_killed_before_it_wrote_the_file_is_used_and_ended(tmp_path: Path) -> None:
    async def story() -> None:
        killed = asyncio.create_task(service(tmp_path).revive())
        while not running(tmp_path):
            await asyncio.sleep(0.01)
        killed.cancel()
        await asyncio.wait([killed])
        before = running(tmp_path)
        (tmp_path / "podman.sock.pid").unlink()
        after = service(tmp_path)
        assert await after.revive() and running(tmp_path) == before
        await after.close()
        assert running(tmp_path) == [] and list(tmp_path.iterdir()) == []

    asyncio.run(story())


def test_a_service_that_lost_its_socket_is_replaced_and_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        first = service(tmp_path)
        assert await first.revive()
        (before,) = running(tmp_path)
        (tmp_path / "podman.sock").unlink()
        assert not await service(tmp_path).revive(), "it may be starting still"
        assert running(tmp_path) == [before]
        monkeypatch.setattr(podman_service, "START_S_MAX", 0.0)
        assert await service(tmp_path).revive()
        (now,) = running(tmp_path)
        assert now != before
        await service(tmp_path).close()
        assert running(tmp_path) == []

    asyncio.run(story())
