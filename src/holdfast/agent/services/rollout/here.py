"""Build the picture of one service that the pure table decides by (reconcile/here.py). It changes nothing."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.agent.services.records import Record, Records
from holdfast.agent.services.rollout.crash_loops import CrashLoops
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.agent.services.rollout.images import Images
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.rollout.networks import Networks
from holdfast.agent.services.rollout.progress import Progress, part_of, target_of
from holdfast.agent.traffic.internal_routes import InternalRoutes
from holdfast.model.container import Container, Guest, Part
from holdfast.ports.proxy import Backend
from holdfast.reconcile.here import Here

HOOKS = ("pre_deploy", "post_deploy")


class HereBuilder:
    def __init__(
        self,
        *,
        inventory: ContainerInventory,
        health_checks: HealthChecks,
        records: Records,
        images: Images,
        networks: Networks,
        routes: InternalRoutes,
        crashes: CrashLoops,
    ) -> None:
        self._inventory = inventory
        self._health_checks = health_checks
        self._records = records
        self._images = images
        self._networks = networks
        self._routes = routes
        self._crashes = crashes

    def doubt(self, guests: Sequence[Guest | None]) -> None:
        """Images and networks of these may have been pruned since they were seen last: ask again."""
        for guest in guests:
            for part in guest.parts if guest is not None else ():
                self._images.known.discard(part.spec.reference)
                self._networks.known.discard(part.spec.network)

    def target_of(self, service: str, wanted: Guest | None) -> Guest | None:
        return target_of(wanted, self._records.of(service))

    async def of(self, service: str, wanted: Guest | None, progress: Progress | None = None) -> Here:
        """`progress` is that of the rollout that asks; None for a mere look."""
        record = self._records.of(service)
        target = target_of(wanted, record)
        containers = self._inventory.of(service)
        parts = [part for guest in (target, record.serving) if guest is not None for part in guest.parts]
        guests = (target, wanted, record.serving)
        here = Here(
            containers=tuple(self._health_checks.seen(one, part_of(one, guests)) for one in containers),
            strangers=self._inventory.strangers(service),
            serving=record.serving,
            routed=self._routed(service, containers),
            listed=bool(self._routes.board.of(service)),
            images=await self._images.here({part.spec.reference for part in parts}),
            networks=self._networks_of(parts, wanted, progress),
            hooks=_hooks_done(target, wanted, record),
            tried=frozenset((progress.tried if progress else set()) | self._crashes.backing_off(containers)),
            drained=frozenset(progress.drained if progress else ()),
            failed=record.failed,
            held=record.held,
        )
        if not self._routes.has_proxy:
            return here
        routes = self._routes.wanted(target, here)
        return replace(
            here,
            certified=all(route.certificate for route in routes if route.mode == "l7"),
            misrouted=routes != self._routes.board.of(service),
        )

    def _networks_of(self, parts: Sequence[Part], wanted: Guest | None, progress: Progress | None) -> frozenset[str]:
        """Networks known to be there. Of a service that leaves, also those that an earlier agent made."""
        named = {part.spec.network for part in parts if part.spec.network}
        known = named & self._networks.known
        if wanted is not None:
            return frozenset(known)
        return frozenset((known | named) - (progress.removed if progress else set()))

    def _routed(self, service: str, containers: tuple[Container, ...]) -> frozenset[str] | None:
        if not self._routes.has_proxy:
            return None
        told = {backend for route in self._routes.board.of(service) for backend in route.backends}
        return frozenset(one.id for one in containers if told.intersection(backends_of(one)))


def backends_of(container: Container) -> tuple[Backend, ...]:
    return tuple(Backend(port.address, port.outside) for port in container.ports)


def _hooks_done(target: Guest | None, wanted: Guest | None, record: Record) -> frozenset[tuple[str, str]]:
    """On the way back no hook runs again: the deployment that served had its hooks when it was new."""
    if target is not None and target is not wanted:
        return frozenset((part.spec.component, when) for part in target.parts for when in HOOKS)
    return frozenset(_hook(text) for text in record.hooks)


def _hook(text: str) -> tuple[str, str]:
    when, _, component = text.partition(" ")
    return component, when
