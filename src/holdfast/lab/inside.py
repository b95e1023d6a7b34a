"""Run a command inside a node on the caller's terminal: pass signals on, return the exit code."""

import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from holdfast.errors import Failed

SPACES = ("net", "uts", "pid", "mnt")  # mnt last: after it, /proc is the node's
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
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
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _become(words, env, folder)
    return _stand_by(child)


def _become(words: Sequence[str], env: Mapping[str, str], folder: str) -> NoReturn:
    code = CANNOT_ENTER
    try:
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


def _stand_by(child: int) -> int:
    """The terminal's own signals reach the child directly; the others are passed on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    for number in PASSED_ON:
        signal.signal(number, lambda received, _: os.kill(child, received))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code
