"""The process behind `product.Warm`: it has imported the whole product and forks for each command that it receives.

It runs as a script and imports nothing from the tests.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

# One harmless call of each kind, as (function of libc, arguments): how a command under strace uses up its first calls.
IDLE_CALLS: Mapping[str, tuple[object, ...]] = {
    "fsync": (-1,),
    "fdatasync": (-1,),
    "ftruncate": (-1, 0),
    "fchmod": (-1, 0),
    "chmod": (b"", 0),
    "mkdir": (b"", 0),
    "link": (b"", b""),
    "unlink": (b"",),
    "rename": (b"", b""),
    "renameat": (-1, b"", -1, b""),
    "unlinkat": (-1, b"", 0),
    "write": (-1, b"", 0),
    "pwrite64": (-1, b"", 0, 0),
    "openat": (-1, b"", 0),
    "pread64": (-1, b"", 0, 0),
}


def _import_all() -> None:
    from importlib import import_module
    from pkgutil import walk_packages

    import_module("holdfast.wiring.cli")  # first: it knows how msgspec is to be imported
    import holdfast

    for module in walk_packages(holdfast.__path__, "holdfast."):
        if module.name != "holdfast.__main__":
            import_module(module.name)


def _use_up(idle: Mapping[str, int]) -> None:
    libc = ctypes.CDLL(None)
    for name, times in idle.items():
        call: Callable[..., int] = getattr(libc, name)
        for _ in range(times):
            call(*IDLE_CALLS[name])


def _obey(order: dict[str, Any]) -> int:
    """In the forked child: become the command line."""
    for number, name in enumerate(("out", "err"), start=1):
        handle = os.open(os.path.join(order["streams"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv = ["holdfast", *order["words"]]
    from holdfast.__main__ import main

    try:
        _use_up(order["idle"])
        code = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return code


def _serve(wire: socket.socket) -> None:
    """Speaks by recv and send only, which no test injects a fault into."""
    _import_all()
    wire.send(b"ready")
    while content := wire.recv(65536):
        child = os.fork()
        if child == 0:
            os._exit(_obey(json.loads(content)))
        _, status = os.waitpid(child, 0)
        wire.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
