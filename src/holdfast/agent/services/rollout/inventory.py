"""The containers of this machine as they were last seen, and which of them this agent made (W10, C-05)."""

from collections.abc import AsyncIterator, Callable, Collection

from holdfast.gate.containers import MADE
from holdfast.model.container import LABEL_FLEET, Container
from holdfast.ports.journal import Journal
from holdfast.ports.runtime import LogLine, Runtime


class ContainerInventory:
    def __init__(self, runtime: Runtime, journal: Journal, fleet: str, changed: Callable[[], None]) -> None:
        self._runtime = runtime
        self._journal = journal
        self._fleet = fleet
        self._changed = changed
        self._seen: dict[str, Container] = {}
        self._sorted: tuple[Container, ...] = ()
        self._labelled: dict[str, list[Container]] = {}  # by service; with this fleet's label
        self._made: set[str] = set()  # names the journal vouches for
        self.runtime = ""  # product and version; "" while it does not answer

    async def meet(self) -> None:
        """The runtime answers, for the first time or again. Raises HoldfastError if it does not."""
        version = await self._runtime.version()
        await self.look()
        self.runtime = version

    def lost(self) -> None:
        """The runtime does not answer: what was seen before may not be so any more."""
        self.runtime = ""

    async def stirred(self, at_most_s: float) -> bool:
        """Wait until something happened to a container."""
        return await self._runtime.changed(at_most_s)

    def running(self) -> int | None:
        """How many containers of this fleet run; None while the runtime does not answer."""
        return sum(one.running for one in self.ours()) if self.runtime else None

    async def look(self) -> None:
        self._take({container.id: container for container in await self._runtime.containers()})

    def add(self, container: Container) -> None:
        """Created just now: it is known without asking the runtime."""
        self._take({**self._seen, container.id: container})

    async def refresh(self, id: str) -> Container | None:
        """One container, after something was done to it."""
        found = await self._runtime.container(id)
        seen = {known: container for known, container in self._seen.items() if known != id}
        if found is not None:
            seen[found.id] = found
        self._take(seen)
        return found

    def _take(self, seen: dict[str, Container]) -> None:
        if seen != self._seen:
            self._seen = seen
            self._sorted = tuple(sorted(seen.values(), key=lambda container: container.name))
            self._labelled = {}
            for one in self._sorted:
                if one.labels.get(LABEL_FLEET) == self._fleet:
                    self._labelled.setdefault(one.service, []).append(one)
            self._changed()

    def is_alive(self, container: Container) -> bool:
        return self._runtime.is_alive(container)

    def logs(self, id: str, tail: int) -> AsyncIterator[LogLine]:
        """The last lines that a container wrote."""
        return self._runtime.logs(id, tail, 0.0, False)

    def all(self) -> tuple[Container, ...]:
        return self._sorted

    def of(self, service: str) -> tuple[Container, ...]:
        return tuple(one for one in self._labelled.get(service, ()) if self.made(one.name))

    def strangers(self, service: str) -> tuple[Container, ...]:
        """Labelled as this service's, and not made here."""
        return tuple(one for one in self._labelled.get(service, ()) if not self.made(one.name))

    def ours(self) -> tuple[Container, ...]:
        return tuple(one for one in self.all() if self.is_ours(one))

    def is_ours(self, container: Container) -> bool:
        """Any program can write labels; the journal knows what was made here."""
        return container.labels.get(LABEL_FLEET) == self._fleet and self.made(container.name)

    def made(self, name: str) -> bool:
        if name not in self._made and self._journal.made_by(MADE + name) is not None:
            self._made.add(name)
        return name in self._made

    def note(self, names: Collection[str]) -> None:
        """These names are in the journal now."""
        self._made.update(names)

    def adopt(self, names: dict[str, str], operation: str) -> bool:
        """After a lost journal: a container that is exactly what is wanted, by name and spec, counts as ours again."""
        adopted = False
        for one in self.all():
            wanted = names.get(one.name)
            if wanted and one.spec == wanted and one.labels.get(LABEL_FLEET) == self._fleet and not self.made(one.name):
                self._journal.note_made(MADE + one.name, operation, False)
                self._made.add(one.name)
                self._changed()
                adopted = True
        return adopted
