"""The published port by which the proxy of this machine reaches a container.

A reload of the firewall takes podman's rules away (N110): the container answers at its own address, and no visitor
reaches it. Podman holds every published port by a socket that accepts nothing, so connections are made all the same.
"""

import os

from holdfast.adapters.prober import accept_queue
from holdfast.adapters.prober.line import Line, Place
from holdfast.model.container import Container

AFTER_S = 5.0  # until then the port may still be set up, and a container that starts is asked often


def of(container: Container, place: Place, now_s: float) -> Place | None:
    """None: `place` is not published, or is the published port itself, or the container has not run for long."""
    if not container.started_s or now_s - container.started_s < AFTER_S:
        return None
    found = next(((one.address, one.outside) for one in container.ports if one.inside == place[1]), None)
    return found if found is not None and found[0] and place[0] == container.address else None


async def leads_on(line: Line, door: Place, within_s: float) -> bool:
    """False: the connection was made to a socket of this machine, which has not accepted it."""
    await line.connected()
    return await line.is_ended_within(within_s) or not accept_queue.waits(os.getpid(), door[1], line.own_end())
