"""The finding about directories that an image declares as volumes and the service file does not answer for (N14). It
stays until the file does."""

from holdfast.agent.findings import Findings
from holdfast.agent.services.rollout.images import Images
from holdfast.errors import Failed
from holdfast.model.container import Guest, Part
from holdfast.reconcile.undeclared import undeclared

CODE = "undeclared_volume"


class Undeclared:
    def __init__(self, images: Images, findings: Findings) -> None:
        self._images = images
        self._findings = findings

    async def look(self, service: str, wanted: Guest | None, here: frozenset[str]) -> None:
        """`here` are images on this node. Nothing is stopped or refused for it: the program runs as it did, and an
        operator decides."""
        parts = wanted.parts if wanted is not None else ()
        if any(part.spec.reference not in here for part in parts):
            return  # it is asked again once they are pulled
        found = [(part, path) for part in parts for path in await self._undeclared(part)]
        if not found:
            self._findings.clear(CODE, f"service.{service}")
            return
        named = ", ".join(f"{path} (component {part.spec.component})" for part, path in found)
        part, path = found[0]
        self._findings.add(
            CODE,
            f"service.{service}: its image declares directories as volumes for which services/{service}.toml has no "
            f"volume: {named}; what the program writes there is lost at the next update",
            f"in services/{service}.toml, below the component {part.spec.component}: to keep it, "
            f'[[components.volumes]] with name = "data", path = "{path}" and protect = "none"; if it may be lost, '
            f'scratch = ["{path}"]; then `holdfast apply`',
            f"service.{service}",
        )

    async def _undeclared(self, part: Part) -> tuple[str, ...]:
        try:
            return undeclared(part, await self._images.volumes(part.spec.reference))
        except Failed as trouble:
            if trouble.code != "image_missing":  # it was pruned meanwhile
                raise
            return ()
