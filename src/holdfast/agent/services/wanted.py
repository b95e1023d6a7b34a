"""The services that this node must run now, kept up to date: the accepted revision, and hints about standby."""

from contextlib import suppress

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Hints, Revision
from holdfast.agent.lanes import Lanes
from holdfast.agent.services.data.volumes import Volumes
from holdfast.agent.services.deployments import Deployments
from holdfast.agent.services.desired import Desired, desired
from holdfast.agent.services.rollout.host_ports import LOOPBACK, Ports, own_address
from holdfast.agent.services.standby import Standby
from holdfast.errors import HoldfastError
from holdfast.planning.edges import proxy_of
from holdfast.ports.acceptance import Acceptance


class Wanted:
    """`address` is the one that this node joined with."""

    def __init__(
        self,
        *,
        acceptance: Acceptance,
        standby: Standby,
        deployments: Deployments,
        volumes: Volumes,
        ports: Ports,
        lanes: Lanes,
        findings: Findings,
        fleet: str,
        data_dir: str,
        address: str,
    ) -> None:
        self._acceptance = acceptance
        self._standby = standby
        self._deployments = deployments
        self._volumes = volumes
        self._ports = ports
        self._lanes = lanes
        self._findings = findings
        self._fleet = fleet
        self._data_dir = data_dir
        self._address = address
        self._revision: Revision | None = None
        self.frozen: Desired | None = None  # as it was read last; None: it is read again when it is needed

    def follow(self, revision: Revision) -> None:
        self._revision, self.frozen = revision, None

    def hinted(self, hints: Hints, here: list[str]) -> tuple[bool, bool]:
        """`here` are the services that this node has records of. Answers whether another set of services is wanted,
        and whether another set is released."""
        if self._revision is None:
            return False, self._standby.release(hints, here)
        is_new = self._standby.stand_in(hints, self._revision.manifest)
        if is_new:
            self.frozen = None
        return is_new, self._standby.release(hints, here)

    @property
    def released(self) -> frozenset[str]:
        return self._standby.released

    def read(self) -> Desired | None:
        """None before a revision is accepted."""
        if self.frozen is None and self._revision is not None:
            content = self._acceptance.blob
            self.frozen = desired(self._revision, content, self._fleet, self._data_dir, self._standby.named)
            self._volumes.take_over(*self._deployments.served(self.frozen))
            self._make_up()
            self._note(self.frozen)
        return self.frozen

    def _make_up(self) -> None:
        """A disk that is full now takes it when the next revision is read: until then what serves is admitted."""
        with suppress(HoldfastError):
            for guest, revision in self._deployments.serving():
                self._volumes.make_up(guest, revision)

    def note(self) -> None:
        """Again, before each pass: the disk may have been full before."""
        if self.frozen is not None:
            self._deployments.note(self.frozen)

    def _note(self, wanted: Desired) -> None:
        exposed = proxy_of(wanted.node) == "none"
        self._ports.publish_on(own_address(wanted.node.address, self._address) if exposed else LOOPBACK)
        self._lanes.resize(wanted.settings.parallel)
        self._deployments.note(wanted)
        self._deployments.forget_left(wanted)
        if wanted.trouble is not None:
            self._findings.add_trouble("content_missing", wanted.trouble)
        else:
            self._findings.clear("content_missing")
