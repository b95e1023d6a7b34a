"""Run a command inside a node with the caller's terminal. Forwards signals and returns the command's exit code."""

import ctypes
import os
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from holdfast.errors import Failed

SPACES = ("net", "uts", "pid", "mnt")  # the mount namespace last: after it /proc is the node's
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # the terminal sends them to the command as well
PR_SET_PDEATHSIG = 1
NOT_FOUND, NOT_EXECUTABLE, CANNOT_ENTER = 127, 126, 125


def run(init: int, words: Sequence[str], env: Mapping[str, str]) -> int:
    """setns(2) puts only later children into a pid namespace, so this process forks and waits."""
    sys.stdout.flush()
    sys.stderr.flush()
    folder = os.getcwd()
    handles = [os.open(f"/proc/{init}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in SPACES]
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, handle in zip(SPACES, handles, strict=True):
        if libc.setns(handle, 0) != 0:
            raise Failed(
                f"cannot enter the node's {kind} namespace: {os.strerror(ctypes.get_errno())}",
                remedy="run this command as root",
                code="no_namespaces",
            )
        os.close(handle)
    # Blocked from before the fork until they are taken one by one: none is lost, whenever it comes.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, *FROM_TERMINAL, signal.SIGCHLD))
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _become(words, env, folder, mask)
    return _wait(child)


def _become(words: Sequence[str], env: Mapping[str, str], folder: str, mask: Collection[int]) -> NoReturn:
    code = CANNOT_ENTER
    try:
        for number in (signal.SIGINT, *IGNORED_BY_PYTHON):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            os.chdir(folder)
        except OSError:
            os.chdir("/")  # the caller's directory does not exist in the node
        os.execvpe(words[0], list(words), dict(env))  # noqa: S606 (that is what `lab exec` is for)
    except FileNotFoundError:
        code = NOT_FOUND
        sys.stderr.write(f"holdfast lab exec: {words[0]}: not found in the node\n")
    except OSError as trouble:
        code = NOT_EXECUTABLE
        sys.stderr.write(f"holdfast lab exec: {words[0]}: {trouble.strerror}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int) -> int:
    """By handle: after the command's end its number may belong to another process. Without handlers: Python runs them
    between two instructions, so that one which comes right before a call that waits would be forwarded after it."""
    handle = os.pidfd_open(child)
    for number in FROM_TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    while True:
        received = signal.sigwait({*FORWARDED, signal.SIGCHLD})
        if received in FORWARDED:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, received)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
