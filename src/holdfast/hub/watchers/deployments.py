"""Which deployment of each service is applied where. Follows commits; works out again only what changed."""

from msgspec import UNSET, Struct

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
    def __init__(self) -> None:
        self.placed: dict[str, Placed] = {}  # by name of the service

    def follow(self, applied: Applied | None) -> None:
        before, self.placed = self.placed, {}
        for address, entry in applied.table.entries.items() if applied is not None else ():
            if address.startswith("service."):
                name = address.removeprefix("service.")
                known = before.get(name)
                same = known is not None and known.entry == entry
                self.placed[name] = known if known is not None and same else Placed(entry, deployment_of(entry))

    def wanted(self, service: str, node: str, standby: bool = False) -> str:
        """The deployment that should be there, "" for none. Whoever stands by runs what is placed elsewhere."""
        found = self.placed.get(service)
        return found.deployment if found is not None and (standby or found.node == node) else ""
