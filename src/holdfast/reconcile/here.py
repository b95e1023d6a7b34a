"""What is here of one service, frozen for one decision: its containers and how they do, and what was done already."""

from typing import Literal

from msgspec import Struct

from holdfast.model.container import Container, Guest

# starting: not judged yet, or the runtime itself brings it back. unhealthy: it was healthy once. failed: it never
# became healthy in time, or it ended and nobody but the agent will start it again.
Word = Literal["starting", "healthy", "unhealthy", "failed"]


class Seen(Struct, frozen=True):
    container: Container
    health: Word

    @property
    def is_well(self) -> bool:
        return self.container.running and self.health == "healthy"

    @property
    def alive(self) -> bool:
        """Has a process, or may have one any moment because the runtime starts it again."""
        return self.container.running or (self.health == "starting" and self.container.phase != "created")


class Here(Struct, frozen=True):
    """Only containers that are ours: whoever fills this in has asked `orphans` first."""

    containers: tuple[Seen, ...] = ()
    strangers: tuple[Container, ...] = ()  # labelled as of this service, but not made by this agent and not adopted
    serving: Guest | None = None  # what was last switched to; the way back leads there
    routed: frozenset[str] | None = None  # ids the proxy sends to now; None where no proxy is
    listed: bool = False  # the proxy answers to names of it, if only that nobody is there
    misrouted: bool = False  # the proxy has other routes of it than it must, or other certificates for them
    certified: bool = True  # every name that is to be answered has a certificate that may be shown (I-16)
    images: frozenset[str] = frozenset()  # references that need no pull
    networks: frozenset[str] = frozenset()  # of this service, as far as known
    hooks: frozenset[tuple[str, str]] = frozenset()  # (component, which) done for the target's deployment
    checkpoints: frozenset[str] = frozenset()  # components whose data was put aside for this attempt
    tried: frozenset[str] = frozenset()  # not to be started now: this attempt has done so, or they are in back-off
    drained: frozenset[str] = frozenset()
    failed: str = ""  # the deployment that did not work; its containers are told apart in the names of steps
    held: bool = False
