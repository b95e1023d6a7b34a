"""Whose process is ended by `lab kill` and `lab down`: a namespace keeps its number while it is compared."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from holdfast.lab import processes
from tests.fleets.handles import none_left_open


@contextmanager
def process_in_a_mount_namespace() -> Iterator[int]:
    process = subprocess.Popen(["unshare", "--mount", "sleep", "1000"])
    try:
        while processes.namespace(process.pid, "mnt") == processes.namespace(os.getpid(), "mnt"):
            assert process.poll() is None, "no namespaces: run as root"
            time.sleep(0.002)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_the_number_of_a_namespace_that_is_gone_is_not_given_to_another_program_while_it_is_compared() -> None:
    """The kernel reuses it at once: 50 of 50 times when this was written."""
    for _ in range(10):
        with ExitStack() as held:
            with process_in_a_mount_namespace() as of_the_node:
                theirs = processes.spaces([of_the_node], held)
                assert processes.namespace(of_the_node, "mnt") in theirs
            with process_in_a_mount_namespace() as of_another_program:
                assert processes.namespace(of_another_program, "mnt") not in theirs


def test_no_namespace_stays_open_after_the_processes_of_a_lab_were_listed(tmp_path: object) -> None:
    with none_left_open():
        assert processes.members("HOLDFAST_LAB=none", None, str(tmp_path)) == []
