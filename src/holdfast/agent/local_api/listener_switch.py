"""Open and close this node's listener as the accepted revision or the command line demands (C-01, H-35)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.errors import HoldfastError, Invalid
from holdfast.model.agent_address import place, shown
from holdfast.model.fleet import Node

AGAIN_S = 5.0  # an overlay's address may come up after the agent
FINDING = "listen_failed"

Place = tuple[str, int]


class ServingListener(Protocol):
    """A listener that is open; `shown` is the digest of the certificate its callers see."""

    shown: str

    def refresh(self) -> object: ...


Opened = Callable[[ServingListener, int], None]
Serve = Callable[[str, int, Opened], Awaitable[None]]  # until cancelled; reports when it is open, and on which port


class ListenerSwitch:
    """`always` is --listen, `own` is --address. Trouble becomes a finding; the agent goes on."""

    def __init__(
        self,
        serve: Serve,
        always: Place | None,
        own: str,
        findings: Findings,
        say: Say,
        noted: Callable[[str], None] = lambda where: None,
    ) -> None:
        self._serve = serve
        self._always = always
        self._own = own
        self._findings = findings
        self._say = say
        self._noted = noted  # called with the address where it is open, "" when it is closed
        self._wanted: Place | None = None
        self._changed = asyncio.Event()
        self._open: ServingListener | None = None

    @property
    def shown(self) -> str:
        return self._open.shown if self._open is not None else ""

    def refresh(self) -> None:
        """The certificate may be another one now."""
        if self._open is not None:
            self._open.refresh()

    def follow(self, node: Node) -> None:
        """After every accepted revision, and at every start."""
        try:
            wanted = wanted_place(node, self._own, self._always)
            if wanted is None or wanted != self._wanted:
                self._findings.clear(FINDING)
        except HoldfastError as trouble:
            self._findings.add_trouble(FINDING, trouble)
            wanted = None
        if wanted != self._wanted:
            self._wanted = wanted
            self._changed.set()
        self.refresh()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._changed.clear()
            serving = asyncio.ensure_future(self._keep_open(*self._wanted)) if self._wanted is not None else None
            try:
                await self._changed.wait()
            finally:
                if serving is not None:
                    serving.cancel()
                    await asyncio.wait([serving])  # awaiting the task itself could hide that this one is cancelled

    async def _keep_open(self, host: str, port: int) -> None:
        while True:
            try:
                await self._serve(host, port, lambda listener, bound: self._opened(listener, host, bound))
            except HoldfastError as trouble:
                self._trouble(host, port, trouble.message, trouble.remedy)
            except Exception as trouble:  # a defect closes the listener, not the agent
                self._trouble(host, port, f"{type(trouble).__name__}: {trouble}", "report this, with the log")
            finally:
                if self._open is not None:
                    self._open = None
                    self._noted("")
                    self._say("listening_ended", {"address": host, "port": port})
            await asyncio.sleep(AGAIN_S)

    def _opened(self, listener: ServingListener, host: str, port: int) -> None:
        self._open = listener
        self._findings.clear(FINDING)
        self._noted(shown(host, port))
        self._say("listening", {"address": host, "port": port})

    def _trouble(self, host: str, port: int, message: str, remedy: str) -> None:
        if self._findings.add(FINDING, message, remedy):
            self._say(FINDING, {"address": host, "port": port, "message": message, "remedy": remedy})


def wanted_place(node: Node, own: str, always: Place | None) -> Place | None:
    """Where to listen; None: not at all. An address that operators signed comes before the machine's own."""
    if always is not None:
        return always
    reasons = {
        'link = "dial"': node.link == "dial",
        'direct = "on"': node.direct == "on",
        "the role provider": "provider" in node.roles and node.peer_calls == "declared",
    }
    reason = next((reason for reason, holds in reasons.items() if holds), "")
    if not reason:
        return None
    address = node.address or own
    if not address:
        raise Invalid(
            f"{node.name} has {reason}, and no address to listen on",
            remedy=f'give {node.name} an address = "…" in [[nodes]] of fleet.toml and apply, or run the agent with '
            "--address ADDRESS",
            code=FINDING,
        )
    return place(address)
