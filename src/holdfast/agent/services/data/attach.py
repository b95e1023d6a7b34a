"""Attach directories that this agent did not make to the service whose volumes they are, by a signed order."""

from collections.abc import Callable, Mapping

from holdfast.agent.keeper import Act, OrderRun
from holdfast.agent.services.data.volumes import Volumes
from holdfast.agent.services.deployments import Deployments
from holdfast.agent.services.desired import Desired
from holdfast.errors import Failed


class AttachData:
    """`wanted` answers what this node must run; `wake` lets the keeper of the services look again."""

    def __init__(
        self,
        wanted: Callable[[], Desired | None],
        volumes: Volumes,
        deployments: Deployments,
        wake: Callable[[], None],
    ) -> None:
        self._wanted = wanted
        self._volumes = volumes
        self._deployments = deployments
        self._wake = wake
        self.acts: Mapping[str, Act] = {
            "adopt": Act(self._adopt, "resume", "a volume that was attached stays attached; the others follow")
        }

    async def _adopt(self, run: OrderRun) -> str:
        """A deployment that failed for lack of the data is tried again."""
        assert run.proof is not None, "the gate permits no adoption without an order"
        service = run.proof.order.target.removeprefix("data.")
        wanted = self._wanted()
        record = self._deployments.known(wanted, service)
        guest = wanted.guests.get(service) if wanted is not None else None
        paths = self._volumes.adopt(service, run.proof.order.id, guest)
        if not paths:
            raise Failed(
                f"no volume of service.{service} waits to be attached on this node: all are attached, or none was "
                "reported since its agent started",
                remedy=f"`holdfast restart {service}` tries a failed deployment again and reports what is refused",
                code="nothing_to_adopt",
            )
        self._deployments.retry(service, record)
        self._wake()
        return f"attached to service.{service}: {', '.join(paths)}"
