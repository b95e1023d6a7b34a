"""Make data of an unpacked backup: where a command of the service must bring it back, it does, beside the service."""

from collections.abc import Callable

from holdfast.agent.backups.declared import Declarations
from holdfast.agent.backups.loading import Loading
from holdfast.agent.backups.restores.initialising import Initialising
from holdfast.agent.backups.restores.under_way import UnderWay
from holdfast.errors import Failed
from holdfast.model import dump
from holdfast.model.archive import Header
from holdfast.model.container import Part
from holdfast.ports.storage import Receivable

Parts = Callable[[str], tuple[Part, ...]]


class WayBack:
    """`parts` answers the components of a service as this node must run it; () if it must not."""

    def __init__(
        self,
        *,
        declared: Declarations,
        initialising: Initialising,
        loading: Loading,
        under_way: UnderWay,
        parts: Parts,
    ) -> None:
        self.under_way = under_way
        self._declared = declared
        self._initialising = initialising
        self._loading = loading
        self._parts = parts

    async def clear(self, service: str) -> None:
        """What an agent left that died on the way: before its directory is emptied."""
        await self._initialising.discard(service)

    async def load(self, proof: Receivable, top: str, header: Header, stays: tuple[str, ...] = ()) -> tuple[str, ...]:
        """`top` has the unpacked backup; afterwards it has all data of the service but the volumes that `stays` names.
        Answers the names in it that are no data. Raises what kept it from that; the service was not touched."""
        is_loaded = await self._loaded(proof, top, header)
        await self._initialising.complete(self._parts(proof.service), proof, {*header.volumes, *stays})
        if not is_loaded:
            return ()
        return (*((dump.NAME,) if header.dump == dump.NAME else ()), *stays)

    async def _loaded(self, proof: Receivable, top: str, header: Header) -> bool:
        """Whether a program of the service ran on it."""
        service, found = proof.service, {**self._declared.awaited, **self._declared.found}
        wanted = found.get(service)
        part = next((one for one in self._parts(service) if wanted and one.spec.component == wanted.component), None)
        if wanted is None or part is None:
            if not header.dump:
                return False
            raise Failed(
                f"this backup of {service} is a dump (method {header.method!r}), which the program of {service} must "
                "load, and this node does not run it",
                remedy=f"holdfast deploy {service}; then repeat the command",
                code="not_deployed",
            )
        if not self._loading.needs(header, wanted.snapshot, service):
            return False
        self.under_way.load(service)
        async with self._initialising.begun(part, proof) as container:
            await self._loading.load(container, part, top, header, wanted.snapshot)
        return True
