"""Hubs: the products that reach one, and the process that is one."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.adapters.hub_link.http.hub import HttpHub
    from holdfast.cli.tools import Serving
    from holdfast.ports.hub_link import HubLink, HubReader, TokenDesk
    from holdfast.ports.stream_link import CallerStreams
    from holdfast.wiring.cli import SystemToolbox


class SystemHubs:
    def __init__(self, box: "SystemToolbox") -> None:
        self._box = box
        self._far: dict[str, HttpHub] = {}  # one connection per hub, however often a command asks for it

    def reader(self, target: str) -> "HubReader | None":
        from holdfast.cli.hub_target import is_url

        return self._http(target) if is_url(target) else self._box.ledgers.revision_reader(target)

    def writer(self, target: str) -> "HubLink":
        from holdfast.cli.hub_target import is_url

        return self._http(target) if is_url(target) else self._box.ledgers.revisions(target)

    def tokens(self, target: str) -> "TokenDesk":
        from holdfast.cli.hub_target import running

        return self._http(running(target, "tokens belong to"))

    def streams(self, target: str) -> "CallerStreams":
        from holdfast.cli.hub_target import running

        url = running(target, "streams go through")
        from holdfast.adapters.stream_link.command import CommandStreams

        return CommandStreams(lambda: self._connection(url), self._box.clock)

    def serve(self, hub: "HubLink", serving: "Serving", ready: Callable[[int, str], None]) -> None:
        import gc

        from holdfast.wiring.hub import HubParts
        from holdfast.wiring.hub_http import daemon

        box = self._box
        building = HubParts(
            disk=box.disk, clock=box.clock, random=box.random, served=box.ledgers.served, ends_with=box.ends_with
        )
        parts = building.build(hub, serving)
        process = daemon(parts, serving.host, serving.port)
        gc.freeze()  # what is loaded by now stays until the end
        gc.enable()  # off in commands (ADR 0003), but a hub goes on
        process.run(lambda port: ready(port, parts.key.line))

    def _http(self, url: str) -> "HttpHub":
        if url not in self._far:
            hub = self._far[url] = self._connection(url)
            self._box.ends_with(hub.close)
        return self._far[url]

    def _connection(self, url: str) -> "HttpHub":
        from holdfast.adapters.hub_link.http.hub import HttpHub
        from holdfast.adapters.sessions.file import FileSessions
        from holdfast.cli.fleet import hub_identity

        box = self._box
        known = hub_identity.of(box.caller.fleet_dir, box.disk, box.environ)
        sessions = FileSessions(
            os.path.join(hub_identity.state_dir(box.environ), "sessions"),
            box.disk,
            box.clock,
            box.random,
            lambda: box.keys.signer(box.caller.key, known.knows),
        )
        return HttpHub(url, sessions, box.clock, box.random, pin=known.pin, fleet=known.fleet)
