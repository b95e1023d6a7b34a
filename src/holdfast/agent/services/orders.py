"""Orders about a service: restart, stop, start, force-cleanup. They act on containers, never on data."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec.structs import replace

from holdfast.agent.keeper import Act, OrderRun
from holdfast.agent.services.deployments import Deployments
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.door import Ground
from holdfast.agent.services.observe_mode import ObserveMode
from holdfast.agent.services.records import Record, Records
from holdfast.agent.services.rollout.containers import Containers
from holdfast.agent.services.rollout.driver import Rollouts
from holdfast.errors import Failed
from holdfast.gate.acts import ACT_OF
from holdfast.gate.authority import by_order
from holdfast.model.container import Container, Guest
from holdfast.reconcile.rollout import is_settled

GOES_ON = "the next pass goes on from what is there"


class ServiceOrders:
    """`wanted` answers what this node must run; `wake` lets its keeper look again. Each order runs in the lane of its
    service."""

    def __init__(
        self,
        *,
        wanted: Callable[[], Desired | None],
        deployments: Deployments,
        records: Records,
        rollouts: Rollouts,
        observe: ObserveMode,
        containers: Containers,
        wake: Callable[[], None],
    ) -> None:
        self._wanted = wanted
        self._deployments = deployments
        self._records = records
        self._rollouts = rollouts
        self._observe = observe
        self._containers = containers
        self._wake = wake
        self.acts: Mapping[str, Act] = {
            "deploy": Act(None, "compensate", GOES_ON),
            "retire": Act(None, "compensate", GOES_ON),
            "restart": Act(_on_service(self.restart), "compensate", "the next pass starts what did not come up again"),
            "stop": Act(
                _on_service(lambda service, _: self.stop(service)), "resume", "a service that was to be held is held"
            ),
            "start": Act(
                _on_service(self.start), "compensate", "a hold that was lifted stays lifted; the next pass starts it"
            ),
            "force-cleanup": Act(_on_service(self.clean_up), "resume", "no operator asks for half a removal"),
        }

    async def restart(self, service: str, ground: Ground) -> str:
        """A deployment that failed or is not done yet is tried again: what served before serves on meanwhile. Otherwise
        each container is stopped and started, one after the other."""
        record = self._known(service)
        if self._observes:
            self._lift_hold(service, "restarted")
            await self._observe.restart(service, self._guests(service), ground)
            return self._done_in_place(service, "restarted")
        self._deployments.forgive(service, replace(record, held=False, failure=None))
        if record.failure is None and not record.held and self._is_settled(service):
            for one in await self._found(service):
                await self._containers.stop(one, ground)
                await self._drive(service)
        await self._drive(service)
        return self._done(service, "restarted")

    def may_run(self, service: str) -> bool:
        """It is applied on this node, and this node has its document."""
        wanted = self._wanted()
        return wanted is not None and service in wanted.guests

    async def stop(self, service: str) -> str:
        """Held before anything is stopped: a crash in between stops the rest, and starts nothing (C-30)."""
        self._records.keep(service, replace(self._known(service), held=True))
        await self._drive(service)
        return f"service.{service} is stopped, and held until it is started or something new is deployed"

    async def start(self, service: str, ground: Ground) -> str:
        if self._observes:
            self._lift_hold(service, "started")
            await self._observe.start(service, self._guests(service), ground)
            return self._done_in_place(service, "started")
        self._deployments.forgive(service, replace(self._known(service), held=False))
        await self._drive(service)
        return self._done(service, "started")

    async def clean_up(self, service: str, ground: Ground) -> str:
        """Containers only, and only those made here. What is applied is made again afterwards."""
        self._known(service)
        self._refuse_observing(service)
        found = await self._found(service)
        for one in found:
            await self._containers.stop(one, ground)
            await self._containers.remove(one, ground)
        self._deployments.forgive(service, self._records.of(service))
        await self._drive(service)
        counted = "1 container" if len(found) == 1 else f"{len(found)} containers"
        return f"removed {counted} of service.{service}; its data was not touched"

    # ---- parts of them

    def _known(self, service: str) -> Record:
        return self._deployments.known(self._wanted(), service)

    @property
    def _observes(self) -> bool:
        wanted = self._wanted()
        return wanted is not None and wanted.node.reconcile == "observe"

    def _is_active(self, service: str) -> bool:
        wanted = self._wanted()
        return wanted is not None and service in wanted.guests and wanted.guests[service].active

    def _is_settled(self, service: str) -> bool:
        wanted = self._wanted()
        return wanted is not None and is_settled(wanted.guests[service], self._records.of(service).serving)

    def _guests(self, service: str) -> list[Guest]:
        wanted = self._wanted()
        guests = [wanted.guests[service] if wanted is not None else None, self._records.of(service).serving]
        return [guest for guest in guests if guest is not None]

    async def _found(self, service: str) -> tuple[Container, ...]:
        """Looked up now: an order that waited for this process may come before the first pass has looked."""
        await self._containers.look()
        return self._containers.of(service)

    async def _drive(self, service: str) -> None:
        wanted = self._wanted()
        assert wanted is not None
        await self._containers.look()
        await self._rollouts.run(service, wanted.guests[service], wanted.revision)
        self._wake()

    def _lift_hold(self, service: str, done: str) -> None:
        """Where nothing is deployed a failed deployment stays failed: it is not tried again."""
        record = self._known(service)
        self._refuse_inactive(service, done)
        self._records.keep(service, replace(record, held=False))

    # ---- results

    def _done_in_place(self, service: str, done: str) -> str:
        self._wake()
        self._refuse_ill(service, done)
        return (
            f"service.{service} is {done}, with the containers it had; this node only observes, so nothing was deployed"
        )

    def _done(self, service: str, done: str) -> str:
        self._refuse_inactive(service, done)
        failure = self._records.of(service).failure
        if failure is not None:
            raise Failed(
                f"service.{service}: step {failure.step!r} failed: {failure.message}",
                remedy=failure.remedy,
                code=failure.code,
            )
        self._refuse_ill(service, done)
        return f"service.{service} is {done}"

    def _refuse_observing(self, service: str) -> None:
        """Its containers would have to be made again, and are not made on such a node: the service would be gone."""
        if self._observes:
            raise Failed(
                f"service.{service} is not cleaned up: this node only observes, so nothing would be made in its place",
                remedy='set reconcile = "converge" for this node in fleet.toml and apply, then order it again',
                code="only_observes",
            )

    def _refuse_inactive(self, service: str, done: str) -> None:
        """An order does not overrule what is declared, and its result must not sound like it."""
        if not self._is_active(service):
            raise Failed(
                f"service.{service} is not {done}: it is declared with active = false, and stays stopped",
                remedy=f"take active = false out of services/{service}.toml, then: holdfast deploy {service}",
                code="inactive",
            )

    def _refuse_ill(self, service: str, done: str) -> None:
        """A service that was started and does not answer is not reported as started."""
        if not self._is_active(service):
            return
        for one in self._containers.of(service):
            why = self._containers.illness(one)
            if why is not None:
                raise Failed(
                    f"service.{service} was {done}, but {one.component} {one.replica} is not healthy: {why}",
                    remedy=f"holdfast logs {service}",
                    code="unhealthy",
                )


def _on_service(act: Callable[[str, Ground], Awaitable[str]]) -> Callable[[OrderRun], Awaitable[str]]:
    async def perform(run: OrderRun) -> str:
        assert run.proof is not None, "no hub may ask for these"
        return await act(run.operation.lane, Ground(ACT_OF[run.proof.order.action], by_order(run.proof)))

    return perform
