"""A process that outlives the agent is found again by its file, and ended with patience."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.adapters.process import kept
from holdfast.adapters.process.kept import Kept
from holdfast.adapters.process.process import Process, known
from tests.fleets.waiting import wait_until

SLEEPS = ("sleep", "60")
DEAF = ("sh", "-c", "trap '' TERM; echo deaf; exec sleep 60")


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(str(tmp_path / "thing"))
    yield made
    if (process := made.child()) is not None:
        os.kill(process.pid, signal.SIGKILL)
        while made.child() is not None:
            time.sleep(0.01)


def begun(on: Kept, command: tuple[str, ...] = SLEEPS, **more: str) -> Process:
    on.start(command, {**os.environ, **more})
    process = on.child()
    assert process is not None
    return process


def test_the_next_agent_finds_it_by_a_file_of_two_numbers(first: Kept, tmp_path: Path) -> None:
    """Agents of other releases read this file: its name and form are fixed."""
    process = begun(first)
    assert (tmp_path / "thing.pid").read_text() == f"{process.pid} {process.started}\n"
    after = Kept(str(tmp_path / "thing"))
    assert after.noted() == process and after.child() is None


def test_a_process_that_only_has_the_same_pid_is_not_found(first: Kept, tmp_path: Path) -> None:
    process = begun(first)
    for text in (f"{process.pid} {process.started + 1}\n", f"{process.pid}", "", "a b"):
        (tmp_path / "thing.pid").write_text(text)
        assert first.noted() is None


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
    process, before = begun(first), len(os.listdir("/proc/self/fd"))
    asyncio.run(kept.ended(process, 0.05))
    asyncio.run(kept.end(process, 30.0))
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_forgotten_leaves_no_file(first: Kept, tmp_path: Path) -> None:
    asyncio.run(kept.end(begun(first), 30.0))
    first.forget()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_program_is_an_error_of_the_start(first: Kept) -> None:
    with pytest.raises(FileNotFoundError):
        first.start(["/no/such/program"], {})
    assert first.child() is None
