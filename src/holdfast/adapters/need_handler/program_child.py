"""The process that becomes a handler program: `python -I -B -m` this module PATH SHA256 USER NETWORK.

It looks whether the program may be trusted, makes namespaces for it, and stays as their keeper: when it is killed, the
kernel ends everything in them, whatever group or session that went to. The program has the standard input and output of
this process; what this process refuses is on standard error, which the program does not have.
"""

import ctypes
import os
import pwd
import resource
import signal
import stat
import sys
from hashlib import sha256
from typing import NoReturn

REFUSED = 97
LIVES_S = 40  # longer than the agent waits for it
PROGRAM_BYTES_MAX = 64 * 1024**2
CPU_S, MEMORY_BYTES, FILES, PROCESSES, FILE_BYTES = 20, 4 * 1024**3, 64, 64, 16 * 1024**2

_NEW_PIDS, _NEW_NETWORK, _NEW_IPC = 0x20000000, 0x40000000, 0x08000000  # of unshare(2)
_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38  # of prctl(2)


class Refusal(Exception):
    pass


def main(path: str, digest: str, user: str, network: str) -> int:
    signal.alarm(LIVES_S)
    _die_with_parent()
    try:
        uid, gid = _account(user)
        program = _opened(path)
        _check(program, digest)
        _separate(network)
        return _kept(program, path, uid, gid)
    except Refusal as refusal:
        return _refuse(str(refusal))


def _refuse(why: str) -> int:
    os.write(2, why.encode("utf-8", "backslashreplace"))
    return REFUSED


def _account(user: str) -> tuple[int, int]:
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise Refusal(f"this node has no user {user}") from None
    if found.pw_uid == 0 or found.pw_gid == 0 or found.pw_uid == os.geteuid():
        raise Refusal(f"{user} is root or the agent's own user")
    return found.pw_uid, found.pw_gid


# ---- the program


def _opened(path: str) -> int:
    """Walked from the root without following links: only root can have put anything on the way."""
    parts = path.strip("/").split("/")
    if not path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise Refusal("the path of the program is not absolute and plain")
    at = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        _check_owner(at, "/")
        for number, part in enumerate(parts, 1):
            is_last = number == len(parts)
            flags = os.O_RDONLY | os.O_NONBLOCK if is_last else os.O_PATH | os.O_DIRECTORY
            name = "/" + "/".join(parts[:number])
            try:
                deeper = os.open(part, flags | os.O_NOFOLLOW, dir_fd=at)
            except OSError as trouble:
                raise Refusal(f"{name} is missing or a link: {trouble.strerror}") from None
            os.close(at)
            at = deeper
            _check_owner(at, name)
    except BaseException:
        os.close(at)
        raise
    return at


def _check_owner(handle: int, name: str) -> None:
    about = os.fstat(handle)
    if about.st_uid != 0:
        raise Refusal(f"{name} does not belong to root")
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Refusal(f"{name} can be written by others than root")


def _check(program: int, digest: str) -> None:
    about = os.fstat(program)
    if not stat.S_ISREG(about.st_mode) or about.st_size > PROGRAM_BYTES_MAX:
        raise Refusal(f"the program is not a file of at most {PROGRAM_BYTES_MAX:,} bytes")
    found = sha256()
    while content := os.read(program, 1 << 20):
        found.update(content)
    if found.hexdigest() != digest:
        raise Refusal("the program is not the one that [[provides]] names by its sha256")


# ---- its process


def _separate(network: str) -> None:
    """Its own processes, and no network unless it is declared. Not possible: refused, never run without."""
    wanted = _NEW_PIDS | _NEW_IPC | (_NEW_NETWORK if network == "off" else 0)
    if ctypes.CDLL(None, use_errno=True).unshare(wanted):
        why = os.strerror(ctypes.get_errno())
        raise Refusal(f"this agent may not make namespaces, so that the program cannot be kept apart: {why}")


def _kept(program: int, path: str, uid: int, gid: int) -> int:
    """Three processes: this one; the first of the new processes, with which all others end; and the program."""
    first = os.fork()
    if first == 0:
        _die_with_parent()
        last = os.fork()
        if last == 0:
            _become(program, path, uid, gid)
        os._exit(_ended(last))
    return _ended(first)


def _ended(child: int) -> int:
    """The output ends with the program, not with this process."""
    for end in (0, 1):
        os.close(end)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _become(program: int, path: str, uid: int, gid: int) -> NoReturn:
    """It begins another program or ends, and never returns into the code of its keeper."""
    words = os.dup(2)
    try:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
        _renounce(uid, gid)
        if os.pread(program, 2, 0) == b"#!":
            os.set_inheritable(program, True)  # the interpreter opens the script again by this handle
        os.execve(program, [path], {})  # noqa: S606 (the file that was looked at, whatever has its name now)
    except OSError as trouble:
        os.write(words, f"the program cannot be started: {trouble.strerror}".encode())
    finally:
        os._exit(REFUSED)


def _renounce(uid: int, gid: int) -> None:
    for kind, most in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_NPROC, PROCESSES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    os.umask(0o077)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    _control(_NO_NEW_PRIVILEGES, 1)


def _die_with_parent() -> None:
    _control(_DEATH_SIGNAL, signal.SIGKILL)


def _control(what: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(what, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
