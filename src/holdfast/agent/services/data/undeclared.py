"""The finding about directories that an image declares as volumes and the service file does not answer for (N14). It
stays until the file does."""

from collections.abc import Sequence
from itertools import chain, count

import msgspec

from holdfast.agent.findings import Findings
from holdfast.agent.services.rollout.images import Images
from holdfast.errors import HoldfastError
from holdfast.model.container import Guest, Part
from holdfast.reconcile.undeclared import undeclared

CODE = "undeclared_volume"
NAMED, CHARS = 5, 100  # in the text: an image may declare any number of paths, of any length


class Undeclared:
    def __init__(self, images: Images, findings: Findings) -> None:
        self._images = images
        self._findings = findings

    async def look(self, service: str, wanted: Guest | None, here: frozenset[str]) -> None:
        """`here` are images on this node. Nothing is stopped, refused or held up for it: the program runs as it did,
        and an operator decides."""
        parts = wanted.parts if wanted is not None else ()
        if any(part.spec.reference not in here for part in parts):
            return  # it is asked again once they are pulled
        try:
            declared = [await self._images.volumes(part.spec.reference) for part in parts]
        except HoldfastError:
            return  # podman cannot tell now, and is asked again
        found = [(part, path) for part, paths in zip(parts, declared, strict=True) for path in undeclared(part, paths)]
        if found:
            self._add(service, parts, found)
        else:
            self._findings.clear(CODE, f"service.{service}")

    def _add(self, service: str, parts: Sequence[Part], found: Sequence[tuple[Part, str]]) -> None:
        named = [f"{path[:CHARS]} (component {part.spec.component})" for part, path in found[:NAMED]]
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        part, path = found[0][0], msgspec.json.encode(found[0][1]).decode()  # quoted as TOML wants it
        taken = {mount.source.rpartition("/")[2] for one in parts for mount in one.spec.mounts}
        name = next(one for one in chain(["data"], (f"data-{n}" for n in count(2))) if one not in taken)
        self._findings.add(
            CODE,
            f"service.{service}: its image declares directories as volumes for which services/{service}.toml has no "
            f"volume: {', '.join(named)}{more}; what the program writes there is lost at the next update",
            f"in services/{service}.toml, below the component {part.spec.component}: to keep it, "
            f'[[components.volumes]] with name = "{name}", path = {path} and protect = "none"; if it may be lost, '
            f"scratch = [{path}]; then `holdfast apply`",
            f"service.{service}",
        )
