"""Probe a container of a closed network from inside: the node does not reach it."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from holdfast.adapters.prober import accept_queue
from holdfast.adapters.prober.line import Place
from holdfast.adapters.prober.network import REACHED, WAYS, Exec, command, place_of, said
from holdfast.errors import HoldfastError
from holdfast.model.container import Container
from holdfast.model.duration import milliseconds
from holdfast.model.fleet import Health
from holdfast.ports.allowed import Allowed
from holdfast.ports.conversation import Conversation
from holdfast.ports.prober import Verdict

Connect = Callable[[Container, int, Allowed], AbstractAsyncContextManager[Conversation]]

BEGIN_S = 3.0  # a command inside a container begins later than a connection of the node
LOOK_S = 0.05


class InsideProber:
    """`connect` and `exec` of the runtime. Every probe runs a command inside."""

    def __init__(self, connect: Connect, exec: Exec) -> None:
        self._connect = connect
        self._exec = exec

    async def probe(self, container: Container, health: Health, allowed: Allowed | None = None) -> Verdict:
        assert allowed is not None, "every probe runs a command, with the permission of the gate"
        if health.type == "exec":
            return await command(self._exec, container, health, allowed)
        place = place_of(container, health)
        if place is None:
            return Verdict(False, "it has no address, or the probed port is not known")
        try:
            async with asyncio.timeout(milliseconds(health.timeout) / 1000 + BEGIN_S):
                async with self._connect(container, place[1], allowed) as line:
                    if health.type == "tcp":
                        return await _tcp(line, place, container)
                    return await WAYS[health.type](line, place, health)
        except TimeoutError:
            return Verdict(False, f"{said(place)}: no answer within {health.timeout}")
        except HoldfastError as trouble:
            return Verdict(False, trouble.message)
        except OSError as trouble:
            return Verdict(False, f"{said(place)}: {REACHED.get(trouble.errno, trouble.strerror or str(trouble))}")


async def _tcp(line: Conversation, place: Place, container: Container) -> Verdict:
    """The program has accepted a connection to this port, or closed it at once. The kernel connects for a program that
    hangs, too."""
    answered = asyncio.ensure_future(line.receive())
    try:
        while not answered.done():
            if accept_queue.is_accepted(container.pid, place[1]):
                return Verdict(True)
            await asyncio.wait({answered}, timeout=LOOK_S)
        answered.result()  # raises if there was no connection
        return Verdict(True)
    finally:
        answered.cancel()
