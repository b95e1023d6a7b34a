"""The end of a watched process is seen, whether it has a handle of its own or is looked up in /proc."""

import errno
import os
import select
import subprocess
from collections.abc import Iterator

import pytest

from holdfast.adapters.process.process import Process, known
from holdfast.adapters.runtime.podman import pid_watch
from holdfast.adapters.runtime.podman.pid_watch import PidWatch
from tests.fleets.handles import none_left_open
from tests.fleets.waiting import wait_until


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.fixture(params=[256, 0], ids=["by handle", "by /proc"])
def watch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[PidWatch]:
    monkeypatch.setattr(pid_watch, "WATCHED_MAX", request.param)
    made = PidWatch()
    yield made
    made.close()


def found(pid: int) -> Process:
    process = known(pid)
    assert process is not None
    return process


def test_a_living_process_is_not_gone(watch: PidWatch, sleeper: "subprocess.Popen[bytes]") -> None:
    watch.follow({found(sleeper.pid)})
    assert not watch.any_gone()


def test_a_killed_process_is_gone_although_its_parent_has_not_waited_for_it(
    watch: PidWatch, sleeper: "subprocess.Popen[bytes]"
) -> None:
    watch.follow({found(os.getpid()), found(sleeper.pid)})
    sleeper.kill()
    wait_until(watch.any_gone, "its end is seen")


def test_a_process_that_is_followed_no_more_is_not_asked_for(
    watch: PidWatch, sleeper: "subprocess.Popen[bytes]"
) -> None:
    watch.follow({found(sleeper.pid)})
    sleeper.kill()
    sleeper.wait()
    watch.follow({found(os.getpid())})
    assert not watch.any_gone()


def test_a_process_that_only_has_the_same_number_counts_as_gone(
    watch: PidWatch, sleeper: "subprocess.Popen[bytes]"
) -> None:
    watch.follow({Process(sleeper.pid, found(sleeper.pid).started - 1)})
    assert watch.any_gone()


def test_no_handle_stays_open(sleeper: "subprocess.Popen[bytes]") -> None:
    with none_left_open():
        watch = PidWatch()
        watch.follow({found(sleeper.pid), found(os.getpid())})
        watch.follow(set())
        watch.close()


def test_a_process_that_the_kernel_cannot_watch_is_looked_up_and_its_handle_is_closed(
    sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def register(self, handle: int, events: int) -> None:
            raise OSError(errno.ENOSPC, "no more watches for this user")

        def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
            return []

        def close(self) -> None: ...

    monkeypatch.setattr(select, "epoll", Full)
    watch = PidWatch()
    with none_left_open():
        watch.follow({found(sleeper.pid)})
    assert not watch.any_gone()
    sleeper.kill()
    wait_until(watch.any_gone, "its end is seen")
