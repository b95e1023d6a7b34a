"""The observed state of one service, frozen for one decision: containers, health, finished steps."""

from typing import Literal

from msgspec import Struct

from holdfast.model.container import Container, Guest

# starting: not judged yet, or the runtime restarts it. unhealthy: it was healthy before. failed: it never became
# healthy in time, or it ended and only the agent will start it again.
Word = Literal["starting", "healthy", "unhealthy", "failed"]


class Seen(Struct, frozen=True):
    container: Container
    health: Word
    returns: bool = False  # it crashed and was not stopped since: the runtime may restart it, however late

    @property
    def is_well(self) -> bool:
        return self.container.running and self.health == "healthy"

    @property
    def alive(self) -> bool:
        """Has a process, or may have one at any moment because the runtime restarts it."""
        return self.container.running or (self.health == "starting" and self.container.phase != "created")

    @property
    def may_run(self) -> bool:
        """Not before it was stopped may another one write into its data, or it be removed."""
        return self.alive or self.returns


class Here(Struct, frozen=True):
    """Only containers of this agent: the caller has filtered them with `orphans`."""

    containers: tuple[Seen, ...] = ()
    strangers: tuple[Container, ...] = ()  # labelled as of this service, but not made by this agent and not adopted
    serving: Guest | None = None  # what was last switched to; a rollback returns to it
    routed: frozenset[str] | None = None  # ids the proxy routes to now; None without a proxy
    listed: bool = False  # the proxy serves names of it, even without a backend
    misrouted: bool = False  # the proxy has other routes of it than wanted, or other certificates
    certified: bool = True  # every name to serve has a certificate that may be served (I-16)
    images: frozenset[str] = frozenset()  # references that need no pull
    networks: frozenset[str] = frozenset()  # of this service, as far as known
    hooks: frozenset[tuple[str, str]] = frozenset()  # (component, which) done for the target's deployment
    owed: frozenset[str] = frozenset()  # components with a new writer for data that is not copied yet
    ahead: frozenset[str] = frozenset()  # components whose data this rollout has copied while they ran
    tried: frozenset[str] = frozenset()  # not to be started now: this attempt has done so, or they are in back-off
    drained: frozenset[str] = frozenset()
    failed: str = ""  # the deployment that failed; steps name its containers as failed
    held: bool = False
