"""How processes of containers ended, by podman's events: while one is restarted, its list does not show it."""

from typing import Protocol

import msgspec
from msgspec import Struct


class _Actor(Struct, frozen=True, rename="pascal"):
    id: str = msgspec.field(default="", name="ID")
    attributes: dict[str, str] = {}


class _Event(Struct, frozen=True, rename="pascal"):
    action: str = ""
    actor: _Actor = _Actor()


class End(Struct, frozen=True):
    code: int
    oom: bool = False


class Kills(Protocol):
    def killed(self, id: str, code: int) -> bool: ...

    def forget(self, id: str) -> None: ...


class Ends:
    def __init__(self, kills: Kills) -> None:
        self._kills = kills
        self._last: dict[str, End] = {}

    def heard(self, line: bytes) -> None:
        """One event."""
        try:
            event = _event.decode(line)
        except msgspec.DecodeError:
            return
        id = event.actor.id
        if event.action == "died":
            code = event.actor.attributes.get("containerExitCode", "")
            if code.isdecimal():
                self._last[id] = End(int(code), self._kills.killed(id, int(code)))
        elif event.action == "remove":
            self._last.pop(id, None)
            self._kills.forget(id)

    def last(self, id: str) -> End | None:
        return self._last.get(id)


_event = msgspec.json.Decoder(_Event)
