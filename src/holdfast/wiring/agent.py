"""The composition root of an agent: chooses products and nothing else. Everything is imported when first needed."""

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.agent.agent import Agent
    from holdfast.agent.local_api.listener_switch import Opened, Serve
    from holdfast.agent.membership import Membership
    from holdfast.agent.traffic.certificates.node import NodeCertificates
    from holdfast.cli.agent_home import Running
    from holdfast.model.audit import AuditHead
    from holdfast.ports.acceptance import Acceptance
    from holdfast.ports.fleet_link import FleetLink
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.journal import Journal
    from holdfast.wiring.cli import SystemToolbox

NODE_KEY_FILE, IDENTITY_FILE, AGENT_DB = "node.key", "identity.json", "agent.db"
AUDIT_FILE, AUDIT_HEAD_FILE, NONCES_FILE = "audit.jsonl", "audit.head", "nonces.db"


class SystemAgent:
    """One state directory and the real machine around it."""

    def __init__(self, state_dir: str, box: "SystemToolbox") -> None:
        self._dir = state_dir
        self._box = box

    def _path(self, name: str) -> str:
        return os.path.join(self._dir, name)

    def key(self, host_key: str | None) -> "IdentityKey":
        from holdfast.adapters.identity_key import file

        path = self._path(NODE_KEY_FILE)
        known = file.load(path)
        if known is not None:
            return known
        if host_key is not None:
            from holdfast.adapters.machine.host_key import adopt

            return adopt(host_key, path, self._box.disk, self._box.random)
        return file.make(path, self._box.disk, self._box.random)

    def existing_key(self) -> "IdentityKey | None":
        from holdfast.adapters.identity_key import file

        return file.load(self._path(NODE_KEY_FILE))

    def once(self, seed: bytes) -> "IdentityKey":
        from holdfast.adapters.identity_key.memory import MemoryIdentityKey

        return MemoryIdentityKey(seed)

    @contextmanager
    def lock(self) -> Iterator[None]:
        from holdfast.adapters.machine.lock import DirectoryLock

        held = DirectoryLock(self._dir)
        try:
            yield
        finally:
            held.release()

    def link(self, member: "Membership", key: "IdentityKey") -> "FleetLink":
        from holdfast.adapters.fleet_link.http import HttpFleetLink

        return HttpFleetLink(member.hub, member.hub_key, key, lambda: member.fleet, self._box.clock, self._box.random)

    def arch(self) -> str:
        return os.uname().machine

    def stores(self) -> "tuple[Journal, Acceptance] | None":
        if not os.path.exists(self._path(AGENT_DB)):
            return None
        journal, acceptance = self._stores()
        self._box.ends_with(journal.close)
        return journal, acceptance

    def _stores(self) -> "tuple[Journal, Acceptance]":
        from holdfast.adapters.acceptance.sqlite import SqliteAcceptance
        from holdfast.adapters.journal.agent_file import AgentFile
        from holdfast.adapters.journal.sqlite import SqliteJournal

        file = AgentFile(self._path(AGENT_DB))
        return SqliteJournal(file), SqliteAcceptance(file)

    def verified_audit(self) -> "AuditHead":
        from holdfast.adapters.audit_log import at_rest

        return at_rest.verify(self._path(AUDIT_FILE), self._path(AUDIT_HEAD_FILE))

    def audit_lines(self, newest: int) -> Sequence[bytes]:
        from holdfast.adapters.audit_log import at_rest

        return at_rest.newest(self._path(AUDIT_FILE), newest)

    @contextmanager
    def _present(self, member: "Membership", running: "Running") -> Iterator[Callable[[str], None]]:
        """Says in the run directory that this agent runs. No agent fails because nobody could be told."""
        from holdfast.adapters.machine.presence import Presence

        presence = Presence(running.run_dir, member.node, {"state_dir": os.path.abspath(self._dir)}, self._box.disk)

        def tell(listening: str) -> None:
            try:
                presence.tell(listening)
            except HoldfastError as trouble:
                _say("run_dir_unwritable", {"message": trouble.message, "remedy": "choose another with --run-dir DIR"})

        tell("")
        try:
            yield tell
        finally:
            presence.leave()

    def run(self, member: "Membership", running: "Running") -> int:
        """Everything is opened under the lock; what a signal cuts short is journaled and waits for the next start."""
        import asyncio
        import gc

        from holdfast.adapters.http_server.loop import new_loop
        from holdfast.agent import daemon
        from holdfast.hub.service_manager import notify

        with self.lock(), self._present(member, running) as tell:
            agent, others = build_agent(self, member, running, self._box, tell)
            gc.freeze()
            gc.enable()  # off in commands (ADR 0003), but an agent goes on
            watchdog_us = self._box.environ.get("WATCHDOG_USEC", "")
            watchdog_s = int(watchdog_us) / 1e6 if watchdog_us.isdigit() else None
            with asyncio.Runner(loop_factory=new_loop) as runner:
                quiet = runner.run(daemon.live(agent, others, notify, watchdog_s))
                if not quiet:  # a thread that is still deleting would keep the process; it goes on after the next start
                    os._exit(0)
            agent.world.audit.close()
            agent.world.journal.close()
        return 0


def build_agent(
    home: SystemAgent,
    member: "Membership",
    running: "Running",
    box: "SystemToolbox",
    listening: Callable[[str], None],
) -> "tuple[Agent, Callable[[], list[Awaitable[None]]]]":
    """The agent, and what runs beside it. `listening` is told where its door is open, "" when it is shut."""
    from msgspec.structs import replace

    from holdfast.adapters.audit_log.file import FileAuditLog
    from holdfast.adapters.certificate_store.files import FileShelf
    from holdfast.adapters.certificates.files import X509Certificates
    from holdfast.adapters.handshake.tls import TlsHandshake
    from holdfast.adapters.identity_key import file
    from holdfast.adapters.machine.linux import LinuxMachine
    from holdfast.adapters.name_server.dnsmasq import Dnsmasq
    from holdfast.adapters.prober.network import NetworkProber
    from holdfast.adapters.proxy.envoy import Envoy
    from holdfast.adapters.public_authority.acme import AcmeAuthority
    from holdfast.adapters.resolver.dnspython import DnspythonResolver
    from holdfast.adapters.runtime.podman import Podman
    from holdfast.adapters.sealing import age
    from holdfast.adapters.secret_files.directory import DirectorySecretFiles
    from holdfast.adapters.storage.directory import DirectoryStorage
    from holdfast.adapters.stream_link.http import HttpNodeStreams
    from holdfast.agent import membership
    from holdfast.agent.agent import Agent
    from holdfast.agent.local_api.listener_switch import ListenerSwitch
    from holdfast.agent.orders.streams import Streams
    from holdfast.agent.roles import check_role
    from holdfast.agent.services.secrets import Secrets
    from holdfast.agent.traffic.certificates.node import NodeCertificates
    from holdfast.agent.world import World

    path = home._path
    key = home.key(None)
    journal, acceptance = home._stores()
    runtime = Podman(running.podman_socket or None, running.run_dir, auth_files=running.registry_auth)
    opener = age.from_ssh_key(box.disk.read(path(NODE_KEY_FILE), file.FILE_BYTES_MAX) or b"", path(NODE_KEY_FILE))
    issuer = X509Certificates(home._dir, box.disk)
    keeper = NodeCertificates(issuer, box.clock)
    world = World(
        home.link(member, key),
        journal,
        acceptance,
        DirectoryStorage(running.data_dir, member.node),
        FileAuditLog(path(AUDIT_FILE), path(AUDIT_HEAD_FILE), box.clock, box.disk),
        LinuxMachine(running.data_dir),
        key,
        box.clock,
        box.random,
        keeper,
        runtime,
        Envoy(
            path("proxy"),
            os.path.join(running.run_dir, f"proxy-{member.node}"),
            box.clock,
            supervise=box.environ.get("HOLDFAST_PROXY") != "unit",
        ),
        NetworkProber(runtime.exec),
        Secrets(acceptance, opener, DirectorySecretFiles(os.path.join(running.run_dir, "secrets", member.node))),
        issuer,
        FileShelf(path("routes"), box.disk),
        AcmeAuthority(path("acme"), box.disk),
        TlsHandshake(),
        Dnsmasq(os.path.join(running.run_dir, f"dns-{member.node}")),
        DnspythonResolver(),
        os.path.abspath(running.data_dir),
        _say,
    )

    def confirmed() -> None:
        box.disk.replace(path(IDENTITY_FILE), membership.encode(replace(member, joined=True)), 0o600)

    agent = Agent(world, member, confirmed)
    line = HttpNodeStreams(member.hub, member.hub_key, key, lambda: member.fleet, box.clock, box.random)
    agent.orders.opening.streams = Streams(line, runtime, keeper.serving, box.clock, _say)
    check_role(agent, running.role)
    always = (running.host, running.port) if running.host else None
    serve = _serving(agent, keeper, path(NONCES_FILE), box)
    keeper.door = door = ListenerSwitch(serve, always, member.address, agent.findings, _say, listening)
    return agent, lambda: [door.run()]


def _serving(agent: "Agent", keeper: "NodeCertificates", nonces_file: str, box: "SystemToolbox") -> "Serve":
    """Everything a listener needs, opened with it and closed with it: a node that is only polled has none of it."""

    async def serve(host: str, port: int, opened: "Opened") -> None:
        from holdfast.adapters.http_server.node import NodeServer
        from holdfast.adapters.nonces.sqlite import SqliteNonces
        from holdfast.adapters.tls.server import IssuedTls
        from holdfast.agent.local_api.api import LocalApi
        from holdfast.agent.local_api.node import LocalAgent

        nonces = SqliteNonces(nonces_file, box.clock)
        try:
            api = LocalApi(LocalAgent(agent), agent.world.key, nonces, agent.world.audit, box.clock)
            server = NodeServer(api, keeper.serving, IssuedTls(), host, port)
            await server.run(lambda bound: opened(server, bound))
        finally:
            nonces.close()

    return serve


def _say(event: str, fields: dict[str, object]) -> None:
    """One event, one line, on stderr. Nobody waits for who reads it."""
    line = msgspec.json.encode({"event": event, **fields})
    with suppress(OSError):
        os.write(2, line + b"\n")
