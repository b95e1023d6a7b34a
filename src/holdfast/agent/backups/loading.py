"""The way back of a backup that a command made: another command, in a container of the service, brings it back.

Restores and drills use it. The container was started on new volumes; what the backup has beside the dump is in its
place.
"""

import os
from collections.abc import Callable, Sequence

from holdfast.agent.backups.initialised import Initialised, settle_s
from holdfast.agent.services.door import Door
from holdfast.errors import Failed, Invalid
from holdfast.model import dump
from holdfast.model.archive import Header
from holdfast.model.container import Container, Part
from holdfast.model.fleet import Snapshot
from holdfast.ports.runtime import Pipe, Piped

LINES, LINE_CHARS = 5, 200


class Loading:
    """`timeout_s` answers how long a command may take."""

    def __init__(self, door: Door, initialised: Initialised, timeout_s: Callable[[], float]) -> None:
        self._door = door
        self._initialised = initialised
        self._timeout_s = timeout_s

    def needs(self, header: Header, snapshot: Snapshot, service: str) -> bool:
        """Whether a command must run before this backup is the data. `snapshot` is what the service declares now.
        Raises Invalid if it declares no such command, although the backup needs one."""
        if header.method in dump.PREPARED:  # its files are the data; a command of the same method may follow
            return snapshot.method in dump.PREPARED and bool(dump.loader(snapshot))
        if not header.dump or dump.loader(snapshot):
            return bool(header.dump)
        raise Invalid(
            f"this backup of {service} is a dump (method {header.method!r}), and the service declares no command that "
            "loads it",
            remedy=f"declare [snapshot] restore = COMMAND in services/{service}.toml, then: holdfast deploy {service}",
            code="no_way_back",
        )

    async def load(self, container: Container, part: Part, top: str, header: Header, snapshot: Snapshot) -> None:
        """`top` has the unpacked backup. The command runs as the service's own user, with the dump on its standard
        input, once the container is initialised; it must be healthy afterwards. Raises Failed with the last lines that
        the command wrote."""
        service, timeout_s = part.spec.service, self._timeout_s()
        await self._initialised.until(container, part, timeout_s, settle_s(part))
        pipe = Pipe(source=os.path.join(top, header.dump) if header.dump else "")
        done = await self._door.pipe(container, dump.loader(snapshot), pipe, timeout_s, service)
        if done.code != 0:
            raise Failed(
                f"the command that loads the dump of {service} ended with {done.code}{last_lines(done)}",
                remedy=f"look at [snapshot] restore of {service}; `holdfast backup list {service}` shows other backups",
                code="load_failed",
            )
        await self._initialised.until(container, part, timeout_s, 0.0)


def last_lines(done: Piped) -> str:
    lines: Sequence[str] = [line.strip()[:LINE_CHARS] for line in done.output.splitlines() if line.strip()][-LINES:]
    return f": {' ⏎ '.join(lines)}" if lines else " and wrote nothing"
