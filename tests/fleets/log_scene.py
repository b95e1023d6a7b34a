"""A hub with TLS, agents over containers in memory, and the real command line in front: logs from end to end."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from holdfast.adapters.acceptance.memory import MemoryAcceptance
from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.certificate_store.memory import MemoryShelf
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.certificates.memory import MemoryCertificates
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.fleet_link.http import HttpFleetLink
from holdfast.adapters.handshake.memory import MemoryHandshake
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.machine.memory import MemoryMachine
from holdfast.adapters.name_server.memory import MemoryNameServer
from holdfast.adapters.notifier.memory import MemoryNotifiers
from holdfast.adapters.prober.memory import MemoryProber
from holdfast.adapters.proxy.memory import MemoryProxy
from holdfast.adapters.public_authority.memory import MemoryPublicAuthority
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.resolver.memory import MemoryResolver
from holdfast.adapters.runtime.memory import MemoryRuntime
from holdfast.adapters.sealing.memory import MemoryOpener
from holdfast.adapters.secret_files.memory import MemorySecretFiles
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.adapters.stream_link.http import HttpNodeStreams
from holdfast.agent.agent import Agent
from holdfast.agent.membership import Membership
from holdfast.agent.orders.streams import Streams
from holdfast.agent.services.secrets.delivery import Secrets
from holdfast.agent.traffic.certificates.node import NodeCertificates
from holdfast.cli import main
from holdfast.model import canonical
from holdfast.model.cadence import FAST
from holdfast.model.container import Container, ContainerSpec, labels_of
from holdfast.model.fleet import Fleet, Node, Settings
from holdfast.model.revision import NodeIdentity
from holdfast.planning.plan import Inputs, plan
from holdfast.ports.signer import Signer
from holdfast.trust import certificates as rules
from holdfast.wiring import keepers
from holdfast.wiring.agent_parts import Ports
from tests.fleets import backing_up, need_net
from tests.fleets.agents import AnyImage, Wires
from tests.fleets.build import ALICE_SIGNER, commit, mailbox, signed, small_fleet
from tests.fleets.serving import Served, key_of, served
from tests.fleets.tools import Box
from tests.fleets.waiting import wait_until

NODES = ("w1", "w2")


def two_services(version: int = 1) -> Fleet:
    """One for each node, so that both look at their containers."""
    return small_fleet({"api": 1, "web": version}, NODES)


class TwoIssuers(NodeCertificates):
    """What streams show is real; what the routes of a proxy in memory show need not be."""

    other: MemoryCertificates

    def prepare(self, node: Node, settings: Settings) -> None:
        super().prepare(node, settings)
        self.other.issuer(node.name, rules.constraints(node.name, node.roles, settings), SystemClock().now_s())


class AgentThread:
    """One agent with an event loop of its own. Its containers are asked and told from the outside by `tell`."""

    def __init__(self, hub: Served, node: str, folder: Path) -> None:
        self.node = node
        self._hub = hub
        self._folder = folder
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self.runtime: MemoryRuntime
        self.agent: Agent
        self.ports: Ports
        self.certificates: NodeCertificates
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), name=node, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = asyncio.Event()
        self.agent = self._built()
        task = asyncio.ensure_future(self.agent.run())
        self._ready.set()
        await self._told.wait()
        task.cancel()
        assert self.agent.orders.opening.streams is not None
        await self.agent.orders.opening.streams.close()
        await asyncio.gather(task, return_exceptions=True)
        await self.ports.link.close()

    def _built(self) -> Agent:
        hub, clock, random, key = self._hub, SystemClock(), SystemRandom(), key_of(self.node)
        applied = hub.parts.hub.applied()
        assert applied is not None
        self._folder.mkdir(mode=0o700)
        issuer = MemoryCertificates()  # of its routes; what the streams show is real
        keeper = TwoIssuers(X509Certificates(str(self._folder), PosixDisk()), clock)
        keeper.other = issuer
        proxy, handshake = MemoryProxy(clock), MemoryHandshake(clock)
        handshake.listeners = Wires(proxy, [proxy])
        self.runtime = MemoryRuntime(clock)
        self.runtime.images = AnyImage()
        acceptance = MemoryAcceptance()
        storage = MemoryStorage(self.node)
        ports = Ports(
            link=HttpFleetLink(hub.url, hub.hub_key, key, lambda: applied.fleet_id, clock, random),
            journal=MemoryJournal(),
            acceptance=acceptance,
            storage=storage,
            audit=MemoryAuditLog(clock),
            machine=MemoryMachine(),
            key=key,
            clock=clock,
            random=random,
            runtime=self.runtime,
            proxy=proxy,
            prober=MemoryProber(),
            secrets=Secrets(acceptance, MemoryOpener(key.line), MemorySecretFiles()),
            issuer=issuer,
            shelf=MemoryShelf(),
            authority=MemoryPublicAuthority(clock.now_s),
            handshake=handshake,
            name_server=MemoryNameServer(),
            resolver=MemoryResolver(),
            notifier=MemoryNotifiers(),
            backups=backing_up.ports_of(storage, key.line),
            drills=backing_up.drills_of(),
            needs=need_net.alone(),
            data_dir="/srv",
            say=lambda event, fields: None,
        )
        self.ports, self.certificates = ports, keeper
        request = hub.joining(self.node)
        member = Membership(
            applied.fleet_id, self.node, ("worker",), hub.url, hub.hub_key, applied.head, request.enrolment
        )
        line = HttpNodeStreams(hub.url, hub.hub_key, key, lambda: applied.fleet_id, clock, random)
        streams = Streams(line, self.runtime, keeper.serving, clock, ports.say)
        return keepers.build(ports, member, keeper, streams=streams).agent

    def tell(self, what: Callable[[], Any]) -> Any:
        """Done in its own thread, as everything that touches its containers."""

        async def done() -> Any:
            found = what()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(60)

    def says(self, id: str, *texts: str, error: bool = False) -> None:
        for text in texts:
            self.tell(lambda text=text: self.runtime.say(id, text, error))  # type: ignore[misc]

    def placed(self, fleet: str, service: str = "web", component: str = "main", mark: str = "x") -> str:
        """A container that was left here, as an older epoch would be; its id."""
        spec = ContainerSpec(fleet, service, component, 0, "img", "")
        id = canonical.digest(f"{self.node} {service} {component} {mark}".encode())
        seen = Container(id, f"left {mark}", "running", True, labels_of(spec, "d", "old", 0), started_s=time.time())
        self.tell(lambda: self.runtime.place(seen))
        return id

    @property
    def containers(self) -> Sequence[Container]:
        found: Sequence[Container] = self.tell(self.runtime.containers)
        return found

    @property
    def streams(self) -> int:
        opening = self.agent.orders.opening.streams
        assert opening is not None
        return opening.open

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._told.set)
        self._thread.join(60)
        assert not self._thread.is_alive()


class Command(threading.Thread):
    """One `holdfast` that runs; what it printed so far is in `out`."""

    def __init__(self, home: Path, words: Sequence[str], by: Signer) -> None:
        super().__init__(daemon=True)
        self.box = Box(home)
        self.box.by = by
        self._words = words
        self.code: int | None = None

    def run(self) -> None:
        try:
            self.code = main.run(list(self._words), self.box)
        finally:
            self.box.close()

    @property
    def out(self) -> str:
        return self.box.out.getvalue()

    @property
    def err(self) -> str:
        return self.box.err.getvalue()

    def lines(self, count: int) -> list[str]:
        """Once there are so many."""
        wait_until(lambda: self.out.count("\n") >= count or self.code is not None, lambda: self)
        return self.out.splitlines()

    def ended(self, code: int) -> "Command":
        self.join(60)
        assert self.code == code, (self.code, self.out, self.err)
        return self

    def trouble(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.err.splitlines()[-1])
        assert found["remedy"]
        return found

    def __str__(self) -> str:
        return f"{self.out}\n{self.err}"


class LogScene:
    def __init__(self, hub: Served, home: Path) -> None:
        self.hub = hub
        self.home = home
        self.stop_hub: Callable[[], None] = lambda: None
        self.fleet: Fleet = two_services()
        self.agents = {node: AgentThread(hub, node, home / node) for node in NODES}
        folder = home / "fleet"
        folder.mkdir()
        (folder / "fleet.toml").write_text(f'[fleet]\nname = "small"\nhub_key = "{hub.hub_key}"\n')

    def begin(self, *words: str, by: Signer = ALICE_SIGNER) -> Command:
        found = Command(self.home, [*words, "--fleet", str(self.home / "fleet"), "--hub", self.hub.url], by)
        found.start()
        return found

    def run(self, *words: str, code: int = 0, by: Signer = ALICE_SIGNER) -> Command:
        return self.begin(*words, by=by).ended(code)

    def apply(self, fleet: Fleet | None = None) -> None:
        """The next revision, with the certificates that the nodes have now."""
        self.fleet = fleet or self.fleet
        known = {node: NodeIdentity(key_of(node).line, self._issuer(node)) for node in NODES}
        applied = self.hub.parts.hub.applied()
        self.hub.link().commit(signed(plan(self.fleet, applied, Inputs(identities=known))))

    def _issuer(self, node: str) -> str:
        wait_until(lambda: self.agents[node].certificates.section().issuer, node)
        return canonical.digest(self.agents[node].certificates.section().issuer)

    def web(self, but: str = "") -> tuple[AgentThread, str]:
        """Who runs it, and the id of its container; another one than `but`."""
        found: list[tuple[AgentThread, str]] = []

        def there() -> bool:
            found[:] = [
                (agent, c.id)
                for agent in self.agents.values()
                for c in agent.containers
                if c.running and c.service == "web" and c.id != but
            ]
            return bool(found)

        wait_until(there, "web never ran")
        return found[0]

    def reported(self, node: str, count: int) -> None:
        """Once the hub shows so many containers of `web` there."""
        wait_until(lambda: self._shown(node) == count, f"{node} never told of {count} containers")

    def _shown(self, node: str) -> int:
        (view,) = [view for view in self.hub.link().nodes().nodes if view.name == node]
        told = json.loads(view.report or b"{}").get("containers", ())
        return sum(container["service"] == "web" for container in told)

    def stop(self) -> None:
        for agent in self.agents.values():
            agent.stop()


@contextmanager
def log_scene(home: Path, pinned: bool = True) -> Iterator[LogScene]:
    """Two nodes, joined and pinned; `web` runs on one of them, `api` on the other."""
    hub = mailbox(clock=SystemClock())
    commit(hub, two_services())
    with ExitStack() as serving:
        scene = LogScene(serving.enter_context(served(hub, pace=FAST)), home)
        scene.stop_hub = serving.close
        try:
            if pinned:
                scene.apply()
            scene.web()
            yield scene
        finally:
            scene.stop()
