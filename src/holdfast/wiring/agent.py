"""Choose the products of an agent. Everything is imported when it is first needed."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.wiring.events import stderr_event

if TYPE_CHECKING:
    from holdfast.adapters.fleet_link.signed_requests import SignedRequests
    from holdfast.adapters.tls.peer import PeerTls
    from holdfast.agent.agent import Agent
    from holdfast.agent.local_api.listener_switch import Opened
    from holdfast.agent.membership import Membership
    from holdfast.agent.traffic.certificates.node import NodeCertificates
    from holdfast.cli.agent.agent_home import Running
    from holdfast.model.audit import AuditHead
    from holdfast.ports.acceptance import Acceptance
    from holdfast.ports.fleet_link import FleetLink
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.journal import Journal
    from holdfast.ports.sealing import Opener
    from holdfast.wiring.agent_parts import BackupPorts, NeedPorts, Ports
    from holdfast.wiring.cli import SystemToolbox
    from holdfast.wiring.keepers import Built

NODE_KEY_FILE, IDENTITY_FILE, AGENT_DB = "node.key", "identity.json", "agent.db"
AUDIT_FILE, AUDIT_HEAD_FILE, NONCES_FILE = "audit.jsonl", "audit.head", "nonces.db"


class SystemAgent:
    """One state directory and the real machine around it."""

    def __init__(self, state_dir: str, box: "SystemToolbox") -> None:
        self.state_dir = state_dir
        self._box = box

    def path(self, name: str) -> str:
        return os.path.join(self.state_dir, name)

    def key(self, host_key: str | None) -> "IdentityKey":
        from holdfast.adapters.identity_key import file

        path = self.path(NODE_KEY_FILE)
        known = file.load(path)
        if known is not None:
            return known
        if host_key is not None:
            from holdfast.adapters.machine.host_key import adopt

            return adopt(host_key, path, self._box.disk, self._box.random)
        return file.make(path, self._box.disk, self._box.random)

    def existing_key(self) -> "IdentityKey | None":
        from holdfast.adapters.identity_key import file

        return file.load(self.path(NODE_KEY_FILE))

    def once(self, seed: bytes) -> "IdentityKey":
        from holdfast.adapters.identity_key.memory import MemoryIdentityKey

        return MemoryIdentityKey(seed)

    @contextmanager
    def lock(self) -> Iterator[None]:
        from holdfast.adapters.machine.lock import DirectoryLock

        held = DirectoryLock(self.state_dir)
        try:
            yield
        finally:
            held.release()

    def link(self, member: "Membership", key: "IdentityKey") -> "FleetLink":
        from holdfast.adapters.fleet_link.http import HttpFleetLink

        return HttpFleetLink(member.hub, member.hub_key, key, lambda: member.fleet, self._box.clock, self._box.random)

    def requests(self, member: "Membership", key: "IdentityKey") -> "SignedRequests":
        """On a connection of their own: objects of backups delay no check-in."""
        from holdfast.adapters.fleet_link.signed_requests import SignedRequests

        return SignedRequests(member.hub, member.hub_key, key, lambda: member.fleet, self._box.clock, self._box.random)

    def arch(self) -> str:
        return os.uname().machine

    def stores(self) -> "tuple[Journal, Acceptance] | None":
        if not os.path.exists(self.path(AGENT_DB)):
            return None
        journal, acceptance = self.agent_stores()
        self._box.ends_with(journal.close)
        return journal, acceptance

    def agent_stores(self) -> "tuple[Journal, Acceptance]":
        from holdfast.adapters.acceptance.sqlite import SqliteAcceptance
        from holdfast.adapters.journal.sqlite import SqliteJournal
        from holdfast.adapters.sqlite.agent_file import AgentFile

        file = AgentFile(self.path(AGENT_DB))
        return SqliteJournal(file), SqliteAcceptance(file)

    def verified_audit(self) -> "AuditHead":
        from holdfast.adapters.audit_log import at_rest

        return at_rest.verify(self.path(AUDIT_FILE), self.path(AUDIT_HEAD_FILE))

    def audit_lines(self, newest: int) -> Sequence[bytes]:
        from holdfast.adapters.audit_log import at_rest

        return at_rest.newest(self.path(AUDIT_FILE), newest)

    @contextmanager
    def _present(self, member: "Membership", running: "Running") -> Iterator[Callable[[str], None]]:
        """Write a note about this agent into the run directory. A failure to write it does not stop the agent."""
        from holdfast.adapters.machine.presence import Presence

        presence = Presence(
            running.run_dir, member.node, {"state_dir": os.path.abspath(self.state_dir)}, self._box.disk
        )

        def tell(listening: str) -> None:
            try:
                presence.tell(listening)
            except HoldfastError as trouble:
                stderr_event(
                    "run_dir_unwritable", {"message": trouble.message, "remedy": "choose another with --run-dir DIR"}
                )

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
            agent, ports = build_agent(self, member, running, self._box, tell)
            gc.collect()  # what building left, before what stays is set aside
            gc.freeze()
            gc.enable()  # off in commands (ADR 0003), but an agent goes on
            watchdog_us = self._box.environ.get("WATCHDOG_USEC", "")
            watchdog_s = int(watchdog_us) / 1e6 if watchdog_us.isdigit() else None
            closing = (ports.link.close, ports.runtime.close, ports.backups.target.close)
            with asyncio.Runner(loop_factory=new_loop) as runner:
                # A thread that is still deleting, or a task that does not end, would keep the process: the next start
                # goes on with it.
                if not daemon.run(runner, daemon.live(agent, closing, notify, watchdog_s, stderr_event)):
                    os._exit(0)
            ports.audit.close()
            ports.journal.close()
        return 0


def build_agent(
    home: SystemAgent,
    member: "Membership",
    running: "Running",
    box: "SystemToolbox",
    listening: Callable[[str], None],
) -> "tuple[Agent, Ports]":
    """`listening` is called with the address on which the agent listens, "" when it does not."""
    from holdfast.adapters.stream_link.http import HttpNodeStreams
    from holdfast.agent.findings import Findings
    from holdfast.agent.local_api.listener_switch import ListenerSwitch
    from holdfast.agent.membership_file import MembershipFile
    from holdfast.agent.orders.streams import Streams
    from holdfast.agent.roles import check_role
    from holdfast.agent.time import NodeTime
    from holdfast.agent.traffic.certificates.node import NodeCertificates
    from holdfast.wiring import keepers

    ports = system_ports(home, member, running, box)
    time = NodeTime(ports.clock, ports.journal)
    findings = Findings(time.now_s, stderr_event)

    async def serve(host: str, port: int, opened: "Opened") -> None:
        await _serve(built, ports, certificates, home.path(NONCES_FILE), host, port, opened)

    def write(content: bytes) -> None:
        box.disk.replace(home.path(IDENTITY_FILE), content, 0o600)

    kept = MembershipFile(member, write)
    always = (running.host, running.port) if running.host else None
    door = ListenerSwitch(serve, always, member.address, findings, stderr_event, listening)
    certificates = NodeCertificates(ports.issuer, ports.clock, door)
    line = HttpNodeStreams(member.hub, member.hub_key, ports.key, lambda: member.fleet, box.clock, box.random)
    streams = Streams(line, ports.runtime, certificates.serving, ports.clock, stderr_event)
    built = keepers.build(
        ports,
        member,
        certificates,
        time=time,
        findings=findings,
        streams=streams,
        confirmed=kept.confirmed,
        anchored=kept.anchored,
    )
    check_role(built.agent, running.role)
    return built.agent, ports


def system_ports(home: SystemAgent, member: "Membership", running: "Running", box: "SystemToolbox") -> "Ports":
    """The products around an agent: one for each port."""
    from holdfast.adapters.audit_log.file import FileAuditLog
    from holdfast.adapters.certificate_store.files import FileShelf
    from holdfast.adapters.certificates.files import X509Certificates
    from holdfast.adapters.handshake.tls import TlsHandshake
    from holdfast.adapters.identity_key import file
    from holdfast.adapters.machine.linux import LinuxMachine, container_storage
    from holdfast.adapters.name_server.dnsmasq.server import Dnsmasq
    from holdfast.adapters.prober.inside import InsideProber
    from holdfast.adapters.prober.network import NetworkProber
    from holdfast.adapters.proxy.envoy.proxy import Envoy
    from holdfast.adapters.public_authority.acme.authority import AcmeAuthority
    from holdfast.adapters.resolver.dnspython import DnspythonResolver
    from holdfast.adapters.runtime.podman.runtime import Podman
    from holdfast.adapters.sealing import age
    from holdfast.adapters.secret_files.directory import DirectorySecretFiles
    from holdfast.adapters.storage.directory import DirectoryStorage
    from holdfast.adapters.storage.scratch import DirectoryScratch
    from holdfast.agent.services.secrets import unbound
    from holdfast.agent.services.secrets.delivery import Secrets
    from holdfast.wiring.agent_parts import DrillPorts, Ports
    from holdfast.wiring.notifiers import notifier_of

    path, node = home.path, member.node
    key = home.key(None)
    journal, acceptance = home.agent_stores()
    runtime = Podman(running.podman_socket or None, running.run_dir, auth_files=running.registry_auth)
    private = box.disk.read(path(NODE_KEY_FILE), file.FILE_BYTES_MAX) or b""
    opener = age.from_ssh_key(private, path(NODE_KEY_FILE))
    secret_files = DirectorySecretFiles(os.path.join(running.run_dir, "secrets", node))
    return Ports(
        link=home.link(member, key),
        journal=journal,
        acceptance=acceptance,
        storage=DirectoryStorage(running.data_dir, node),
        audit=FileAuditLog(path(AUDIT_FILE), path(AUDIT_HEAD_FILE), box.clock, box.disk),
        machine=LinuxMachine(
            running.data_dir,
            disks={
                "data": running.data_dir,
                "state": os.path.abspath(home.state_dir),
                "containers": container_storage(),
            },
        ),
        key=key,
        clock=box.clock,
        random=box.random,
        runtime=runtime,
        proxy=Envoy(
            path("proxy"),
            os.path.join(running.run_dir, f"proxy-{node}"),
            box.clock,
            supervise=box.environ.get("HOLDFAST_PROXY") != "unit",
        ),
        prober=NetworkProber(runtime.exec),
        secrets=Secrets(acceptance, opener, secret_files, unbound.noted(journal, acceptance)),
        issuer=X509Certificates(home.state_dir, box.disk),
        shelf=FileShelf(path("routes"), box.disk),
        authority=AcmeAuthority(path("acme"), box.disk),
        handshake=TlsHandshake(),
        name_server=Dnsmasq(os.path.join(running.run_dir, f"dns-{node}")),
        resolver=DnspythonResolver(),
        notifier=partial(notifier_of, running.alert_networks),
        backups=_backup_ports(home, member, running, box, key, private, opener),
        needs=_need_ports(running, node, key, box),
        drills=DrillPorts(DirectoryScratch(running.data_dir), InsideProber(runtime.connect, runtime.exec)),
        data_dir=running.data_dir,
        say=stderr_event,
    )


def _need_ports(running: "Running", node: str, key: "IdentityKey", box: "SystemToolbox") -> "NeedPorts":
    from holdfast.adapters.agent_link.http import HttpAgentLink
    from holdfast.adapters.need_files.directory import DirectoryNeedFiles
    from holdfast.wiring.agent_parts import NeedPorts
    from holdfast.wiring.need_handlers import handler_of

    files = DirectoryNeedFiles(os.path.join(running.run_dir, "needs", node))
    return NeedPorts(HttpAgentLink(key, box.clock, box.random), files, handler_of(box.random))


def _peer_tls(private: bytes, box: "SystemToolbox") -> "PeerTls":
    from holdfast.adapters.tls.peer import PeerTls

    return PeerTls(private, box.clock)


def _backup_ports(
    home: SystemAgent,
    member: "Membership",
    running: "Running",
    box: "SystemToolbox",
    key: "IdentityKey",
    private: bytes,
    opener: "Opener",
) -> "BackupPorts":
    from holdfast.adapters.archive.process import ProcessArchiver
    from holdfast.adapters.backup_target.hub import HubTarget
    from holdfast.adapters.hub_copy.http import HttpHubCopy
    from holdfast.adapters.move_lines.tls import TlsLines
    from holdfast.adapters.own_files.directory import StateFiles
    from holdfast.adapters.sealing.age import AgeSealer
    from holdfast.adapters.sealing.identities import AgeIdentities
    from holdfast.model import ssh_key
    from holdfast.wiring.agent_parts import BackupPorts
    from holdfast.wiring.targets import opener as target_opener

    return BackupPorts(
        archiver=ProcessArchiver(),
        target=HubTarget(home.requests(member, key), ssh_key.fingerprint(ssh_key.parse(member.hub_key))),
        passage=HubTarget(home.requests(member, key), "", "/v1/move-objects"),
        lines=TlsLines(home.path("moves"), lambda: _peer_tls(private, box)),
        open=target_opener(home.path("mounts"), os.path.join(running.run_dir, "storage")),
        sealer=AgeSealer(),
        opener=opener,
        keys=AgeIdentities(),
        hub=HttpHubCopy(home.requests(member, key), os.path.join(home.path("backups"), "hub-copy")),
        own=StateFiles(home.state_dir, os.path.join(home.path("backups"), "own")),
        home=home.path("backups"),
    )


async def _serve(
    built: "Built",
    ports: "Ports",
    certificates: "NodeCertificates",
    nonces_file: str,
    host: str,
    port: int,
    opened: "Opened",
) -> None:
    """Everything that a listener needs, opened with it and closed with it: a node without a listener has none of it."""
    from holdfast.adapters.http_server.node import NodeServer
    from holdfast.adapters.nonces.sqlite import SqliteNonces
    from holdfast.adapters.tls.server import IssuedTls
    from holdfast.agent.local_api.api import LocalApi
    from holdfast.agent.local_api.node import LocalAgent

    nonces = SqliteNonces(nonces_file, ports.clock)
    try:
        local = LocalAgent(built.agent, built.needs.held, built.needs.grants.node_of, ports.clock)
        api = LocalApi(local, built.needs.grants, ports.key, nonces, ports.audit, ports.clock)
        server = NodeServer(api, certificates.serving, IssuedTls(), host, port)
        await server.run(lambda bound: opened(server, bound))
    finally:
        nonces.close()
