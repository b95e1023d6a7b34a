"""The process that sends one alert through Apprise: `python -I -B -m` this module, one JSON document on its input.

It has no environment, no file of the hub, no root, and bounds of its own. An audit hook, which no later code can
remove, sees the address of every connection right before it is made, so that a name that answers otherwise the second
time, or a redirect, leads nowhere. Its output is one line: why the alert was not sent.
"""

import os
import resource
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.adapters.notifier.targets import Targets
from holdfast.model import apprise_url

NOBODY = 65534
READ_MAX = 64 * 1024
_MEMORY, _FILES, _SECONDS = 1024 * 1024 * 1024, 64, 60
_READABLE = ("/etc/ssl/", "/usr/share/", "/usr/lib/", "/etc/mime.types", "/dev/null")
_DENIED = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "pty.", "ctypes.dlopen")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Message(Struct, frozen=True):
    url: str
    title: str
    body: str
    is_alarm: bool
    targets: Targets


def main() -> int:
    message = msgspec.json.decode(sys.stdin.buffer.read(READ_MAX), type=Message)
    why = _why_not_sent(message)
    if why is not None:
        sys.stdout.write(why[:300])
    return 0 if why is None else 1


def _why_not_sent(message: Message) -> str | None:
    if (wrong := apprise_url.complaint(message.url)) is not None:
        return f"its URL {wrong}"
    module, name = apprise_url.SCHEMES[apprise_url.scheme_of(message.url)]
    try:
        import apprise

        plugin = getattr(import_module(f"{apprise.__name__}.plugins.{module}"), name)
        sys.modules["requests.sessions"].DEFAULT_REDIRECT_LIMIT = 0  # type: ignore[attr-defined]  # of the plugins
        without_power()
    except (ImportError, OSError) as trouble:
        return f"its process cannot be prepared: {type(trouble).__name__}"
    refused: list[str] = []
    sys.addaudithook(guard(message.targets, refused))
    try:
        sent = _send(plugin, message)
    except Exception as trouble:  # plugins raise arbitrary exceptions, and their texts may have the URL
        return refused[0] if refused else type(trouble).__name__
    return None if sent else refused[0] if refused else "the service did not accept it"


def _send(plugin: Any, message: Message) -> bool:
    found = plugin.parse_url(message.url)
    if not found:
        return False
    kind = "failure" if message.is_alarm else "success"
    return bool(plugin(**found).notify(body=message.body, title=message.title, notify_type=kind))


def without_power() -> None:
    """Bounds for this process; it stops being root, and no program that it could start is root again."""
    import ctypes

    for limit, most in (
        (resource.RLIMIT_AS, _MEMORY),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_CPU, _SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS


def guard(targets: Targets, refused: list[str]) -> Callable[[str, tuple[Any, ...]], None]:
    readable = (*_READABLE, *(os.path.join(os.path.realpath(p), "") for p in (sys.prefix, sys.base_prefix)))

    def refuse(why: str) -> None:
        refused.append(why)
        raise PermissionError(why)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = args[1]
            if event != "socket.connect" and address is None:
                return  # on a connection that was judged
            host = address[0] if isinstance(address, tuple) and address else ""
            if (why := targets.complaint(str(host))) is not None:
                refuse(why)
        elif event == "open":
            path, _, flags = args
            if isinstance(path, bytes):
                path = os.fsdecode(path)
            is_open = isinstance(path, int) or os.path.realpath(path).startswith(readable)
            if not is_open or (flags or 0) & _WRITES:
                refuse("it opens a file of this machine")
        elif event.startswith(_DENIED):
            refuse("it starts a program")

    return hook


if __name__ == "__main__":
    sys.exit(main())
