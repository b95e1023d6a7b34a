"""Which deployment of each service is applied on which node. Computes again only what a commit changed."""

from msgspec import UNSET, Struct

from holdfast.hub.nodes.registry import Registry
from holdfast.model.applied import Applied
from holdfast.model.deployment import deployment_of
from holdfast.model.revision import Entry


class Placed(Struct, frozen=True):
    entry: Entry
    deployment: str

    @property
    def node(self) -> str:
        return self.entry.node if self.entry.node is not UNSET else ""

    @property
    def is_active(self) -> bool:
        """A service that is declared inactive has no containers."""
        return self.entry.containers > 0


class Deployments:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._of: Applied | None = None
        self._placed: dict[str, Placed] = {}

    @property
    def placed(self) -> dict[str, Placed]:
        """By name of the service, in the revision that the registry has."""
        if self._registry.applied is not self._of:
            self._of = self._registry.applied
            self._placed = _placed(self._of, self._placed)
        return self._placed

    def wanted(self, service: str, node: str, standby: bool = False) -> str:
        """The deployment that should run there, "" for none. A standby node runs what is placed elsewhere."""
        found = self.placed.get(service)
        return found.deployment if found is not None and (standby or found.node == node) else ""


def _placed(applied: Applied | None, before: dict[str, Placed]) -> dict[str, Placed]:
    placed: dict[str, Placed] = {}
    for address, entry in applied.table.entries.items() if applied is not None else ():
        if address.startswith("service."):
            name = address.removeprefix("service.")
            known = before.get(name)
            same = known is not None and known.entry == entry
            placed[name] = known if known is not None and same else Placed(entry, deployment_of(entry))
    return placed
