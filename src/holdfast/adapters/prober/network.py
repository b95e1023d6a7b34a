"""Probe a container's health: over this machine's network, or by a command inside it."""

import asyncio
import errno
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from urllib.parse import quote

from msgspec import UNSET

from holdfast.adapters.prober import accept_queue, door, grpc_health, grpc_snapshot
from holdfast.adapters.prober.line import Line, Place, Waits
from holdfast.errors import HoldfastError
from holdfast.model.container import Container
from holdfast.model.duration import milliseconds
from holdfast.model.fleet import Health
from holdfast.ports.allowed import Allowed, check
from holdfast.ports.conversation import Conversation
from holdfast.ports.prober import Snapshotted, Verdict
from holdfast.ports.runtime import RUNS, Finished

Exec = Callable[[str, Sequence[str], float, Allowed], Awaitable[Finished]]

HEAD_MAX = 16_384  # bytes of an answer that are read
REACTION_S = 0.2
ACCEPTED_S = 0.1  # between the first two looks whether a connection was accepted
EXEC_GRACE_S = 1.0  # the runtime ends the command at its timeout; this is for a runtime that does not
_OK = Verdict(True)
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r\n]")
REACHED: dict[int | None, str] = {
    errno.ECONNREFUSED: "nothing listens there",
    errno.ECONNRESET: "the connection was reset",
    errno.EPIPE: "the connection was reset",
    errno.EHOSTUNREACH: "no route to it",
    errno.ENETUNREACH: "no route to it",
}


class NetworkProber:
    """`exec` runs a command in a container, through the runtime."""

    def __init__(self, exec: Exec) -> None:
        self._exec = exec
        self._waits: Waits | None = None  # made with the first probe, in its event loop

    async def probe(self, container: Container, health: Health, allowed: Allowed | None = None) -> Verdict:
        timeout_s = milliseconds(health.timeout) / 1000
        if health.type == "exec":
            assert allowed is not None, "a command runs only with the permission of the gate"
            return await command(self._exec, container, health, allowed)
        place = place_of(container, health)
        if place is None:
            return Verdict(False, "it has no address of its own and does not publish the probed port")
        way = door.of(container, place, time.time())
        verdict = await self._asked(container, health, place, place if way is None or health.type == "tcp" else way)
        if way is None or not verdict.ok or health.type != "tcp":
            return verdict
        return await self._led(way, timeout_s)

    async def _asked(self, container: Container, health: Health, place: Place, at: Place) -> Verdict:
        """`at`: where the connection is made."""
        shown = said(at) if at == place else f"its published port {said(at)}"
        try:
            with Line(at, milliseconds(health.timeout) / 1000, self._waiting()) as line:
                if health.type == "tcp":
                    return await _tcp(line, place, container)
                return await WAYS[health.type](line, place, health)
        except TimeoutError:
            return Verdict(False, f"{shown}: no answer within {health.timeout}")
        except OSError as trouble:
            return Verdict(False, f"{shown}: {REACHED.get(trouble.errno, trouble.strerror or str(trouble))}")

    async def _led(self, way: Place, timeout_s: float) -> Verdict:
        """By the published port, too. That a program behind it accepts nothing is seen at its own address alone."""
        try:
            with Line(way, timeout_s, self._waiting()) as line:
                if await door.leads_on(line, way, REACTION_S):
                    return _OK
        except OSError:  # also one that took too long
            pass
        return Verdict(False, f"its published port {said(way)} does not lead to it")

    def _waiting(self) -> Waits:
        self._waits = self._waits or Waits()
        return self._waits

    async def snapshot(self, container: Container, port: int, timeout_s: float, allowed: Allowed) -> Snapshotted:
        check(allowed, RUNS, container.id)
        place = place_of(container, Health("grpc", port=port))
        if place is None:
            return Snapshotted(False, "it has no address of its own and does not publish the port")
        try:
            with Line(place, timeout_s, self._waiting()) as line:
                answered = await _call(line, place, grpc_health.Answer(grpc_snapshot.NOTHING), grpc_snapshot.PATH)
        except TimeoutError:
            return Snapshotted(False, f"{said(place)}: no answer within {timeout_s:g} s")
        except OSError as trouble:
            return Snapshotted(False, f"{said(place)}: {REACHED.get(trouble.errno, trouble.strerror or str(trouble))}")
        return grpc_snapshot.read(answered)


async def command(run: Exec, container: Container, health: Health, allowed: Allowed) -> Verdict:
    timeout_s = milliseconds(health.timeout) / 1000
    try:
        async with asyncio.timeout(timeout_s + EXEC_GRACE_S):
            done = await run(container.id, health.cmd, timeout_s, allowed)
    except TimeoutError:
        return Verdict(False, f"{health.cmd[0]}: not finished within {health.timeout}")
    except HoldfastError as trouble:
        return Verdict(False, f"{health.cmd[0]}: {trouble.message}")
    if done.code == 0:
        return _OK
    last = done.output.strip().rpartition("\n")[2][-200:]
    return Verdict(False, f"{health.cmd[0]}: exit code {done.code}" + (f": {last}" if last else ""))


def place_of(container: Container, health: Health) -> Place | None:
    """Its own address if it has one: that works even while the node's ports are still being set up."""
    port = health.port if health.port is not UNSET else _only_port(container)
    if port is None:
        return None
    if container.address:
        return container.address, port
    return next(((one.address, one.outside) for one in container.ports if one.inside == port), None)


def _only_port(container: Container) -> int | None:
    return container.ports[0].inside if len(container.ports) == 1 else None


def said(place: Place) -> str:
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _tcp(line: Line, place: Place, container: Container) -> Verdict:
    """The kernel connects for a program that hangs, too. Most programs end a connection whose other end has nothing to
    say; of one that does not, the kernel knows whether it accepted the connection, which costs milliseconds. Behind an
    address of the node that cannot be seen: another process accepts it there."""
    await line.connected()
    if await line.is_ended_within(REACTION_S) or not container.address:
        return _OK
    pause_s = ACCEPTED_S
    while accept_queue.waits(container.pid, place[1], line.own_end()):
        if pause_s > line.left_s():
            return Verdict(False, f"{said(place)}: it does not accept connections")
        await asyncio.sleep(pause_s)
        pause_s *= 2
    return _OK


async def http(line: Conversation, place: Place, health: Health) -> Verdict:
    await line.send(_question(said(place), health.path if health.path is not UNSET else "/"))
    content, more = b"", b"?"
    while more and len(content) < HEAD_MAX and b"\n" not in _final(content):
        more = await line.receive()
        content += more
    return _judged(place, _final(content))


@lru_cache(1024)
def _question(host: str, path: str) -> bytes:
    shown = quote(path, safe="/?#[]@!$&'()*+,;=:%-._~")
    lines = (f"GET {shown} HTTP/1.1", f"Host: {host}", "User-Agent: holdfast", "Accept: */*", "Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _final(content: bytes) -> bytes:
    """Without interim responses (100, 103); empty until a final one arrives."""
    while (found := _STATUS.match(content)) and found[1].startswith(b"1"):
        content = content.partition(b"\r\n\r\n")[2]
    return content


def _judged(place: Place, head: bytes) -> Verdict:
    found = _STATUS.match(head)
    if found is None:
        what = f"answered, but not with HTTP: {head[:40]!r}" if head else "closed the connection without an answer"
        return Verdict(False, f"{said(place)} {what}")
    status = int(found[1])
    return _OK if 200 <= status < 400 else Verdict(False, f"{said(place)} answered with status {status}")


async def _call(line: Conversation, place: Place, answer: grpc_health.Answer, path: bytes) -> grpc_health.Said:
    await line.send(grpc_health.request(said(place), path))
    while answer.said is None:
        more = await line.receive()
        if not more:
            return grpc_health.Said(None, "it closed the connection without an answer")
        answer.take(more)
        if answer.said is None:
            await line.send(answer.reply)
    return answer.said


async def grpc(line: Conversation, place: Place, health: Health) -> Verdict:
    answered = await _call(line, place, grpc_health.Answer(), grpc_health.PATH)
    status, why = answered.status, answered.why
    if status == grpc_health.SERVING:
        return _OK
    words = why if status is None else f"health status {grpc_health.WORDS.get(status, str(status))}"
    return Verdict(False, f"{said(place)}: {words}")


WAYS: dict[str, Callable[[Conversation, Place, Health], Awaitable[Verdict]]] = {"http": http, "grpc": grpc}
