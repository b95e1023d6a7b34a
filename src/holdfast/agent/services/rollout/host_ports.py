"""Choose the host ports of containers when they are created: never one that is taken."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from ipaddress import ip_address

from holdfast.errors import Failed, HoldfastError
from holdfast.model.agent_address import place
from holdfast.model.container import Container
from holdfast.ports.runtime import PortTaken
from holdfast.reconcile import steps

FIRST, LAST = 20_000, 31_999
LOOPBACK = "127.0.0.1"


def own_address(declared: str, given: str) -> str:
    """Where containers are published: the node's overlay address if it is one, never the whole world."""
    for address in (declared, given):
        try:
            host = place(address)[0] if address else ""
            return str(ip_address(host))
        except (HoldfastError, ValueError):
            continue
    return LOOPBACK


class Ports:
    """Remembers what was chosen in this process: two rollouts at once must not choose the same."""

    def __init__(self) -> None:
        self._address = LOOPBACK
        self._given: dict[int, str] = {}  # port → container name
        self._bad: set[int] = set()  # another program has them

    def publish_on(self, address: str) -> None:
        """Behind a proxy containers answer on loopback only (M-04); without one they answer the overlay."""
        self._address = address

    def choose(self, name: str, inside: Sequence[int], here: Iterable[Container]) -> tuple[tuple[int, str, int], ...]:
        """For each port inside the container: the address and the port outside."""
        taken = {port.outside for container in here for port in container.ports} | self._bad
        taken |= {port for port, owner in self._given.items() if owner != name}
        size = LAST - FIRST + 1
        at = int.from_bytes(sha256(name.encode()).digest()[:4], "big") % size
        found = []
        for wanted in inside:
            free = next((p for n in range(size) if (p := FIRST + (at + n) % size) not in taken), None)
            if free is None:
                raise Failed(
                    f"no port between {FIRST} and {LAST} is free for {name}",
                    remedy="remove containers that are not needed: holdfast ps; podman ps -a",
                    code="no_port",
                )
            taken.add(free)
            self._given[free] = name
            found.append((wanted, self._address, free))
        return tuple(found)

    def refused(self, port: int) -> None:
        self._bad.add(port)
        self._given.pop(port, None)
        if len(self._bad) > (LAST - FIRST) // 2:
            self._bad.clear()  # the programs that had them may be gone by now

    def settled(self, name: str) -> None:
        """The container is there, or will never be: its ports are seen by looking at it."""
        for port in [port for port, owner in self._given.items() if owner == name]:
            del self._given[port]


def port_taken(container: Container, taken: PortTaken) -> Failed:
    return Failed(
        f"port {taken.port} of this node, which {steps.label(container)} answers on, is taken",
        remedy=f"see which program has it and end that: ss -ltnp 'sport = :{taken.port}'",
        code="port_taken",
    )
