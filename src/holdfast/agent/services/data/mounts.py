"""The door to paths that containers mount: the gate decides about each, then it is made ready."""

from collections.abc import Mapping

from holdfast.agent.services.door import Vouch, permitted
from holdfast.errors import NotPermitted
from holdfast.gate.decide import Park
from holdfast.gate.mounts import may_mount, may_reach, may_write
from holdfast.model.proven_address import owns
from holdfast.model.report import Unattached
from holdfast.model.size import counted
from holdfast.ports.allowed import Allowed
from holdfast.ports.storage import DataDirectory, Storage


class Mounts:
    """`refused` are directories that were refused to their services, by place."""

    def __init__(self, storage: Storage, vouch: Vouch, node: str, data_dir: str) -> None:
        self._storage = storage
        self._vouch = vouch
        self._node = node
        self._data_dir = data_dir
        self.refused: dict[str, Unattached] = {}

    def may(self, service: str, place: str, made: bool) -> Allowed:
        """A place in the directory of the service. `made`: a passport says that this agent made it; without one, the
        disk says whether there is anything to lose."""
        found = None if made else self._storage.content(place)
        decision = may_mount(self._vouch(f"service.{service}"), f"{self._data_dir}/{place}", made, found, self._node)
        if isinstance(decision, Park):
            assert found is not None
            raise self._foreign(service, place, found)
        return decision

    def may_all(self, service: str, made: Mapping[str, bool]) -> dict[str, Allowed]:
        """By place. Every one that is refused is reported, so that an operator sees all of them before an adoption."""
        found: dict[str, Allowed] = {}
        refused: list[NotPermitted] = []
        for place, is_made in made.items():
            try:
                found[place] = self.may(service, place, is_made)
            except NotPermitted as trouble:
                refused.append(trouble)
        if refused:
            raise refused[0]
        return found

    def make(self, service: str, place: str, allowed: Allowed) -> None:
        if place.count("/") == 1:
            self._storage.volume(service, place.partition("/")[2], allowed)
        else:
            self._storage.host_path(service, allowed.thing, allowed)

    def reach(self, service: str, source: str) -> None:
        """Any other path of the host, which signatures of grade destroy must have approved for this service."""
        decision = may_reach(self._vouch(f"service.{service}"), source, self._data_dir, self._node)
        self._storage.host_path(service, source, permitted(decision))

    def may_fill(self, service: str, place: str, found: DataDirectory | None) -> Allowed:
        """A volume is filled only while it is empty."""
        proof = self._vouch(f"service.{service}")
        return permitted(may_write(proof, service, f"{self._data_dir}/{place}", found, self._node))

    def may_own(self, service: str, place: str, owner: str, found: DataDirectory | None) -> Allowed:
        path, asked = f"{self._data_dir}/{place}", owns(place.partition("/")[2], owner)
        decision = may_write(self._vouch(f"service.{service}"), service, path, found, self._node, asked)
        if isinstance(decision, Park):
            raise NotPermitted(
                f"{path} has data, and no signature of grade destroy approved that all of it is given to {owner}",
                remedy=f"look at it on {self._node}, then give it to that owner yourself: chown -R -h {owner} {path}",
                code="owner_not_approved",
            )
        return decision

    def forget_refused(self, service: str) -> None:
        self.refused = {place: one for place, one in self.refused.items() if one.service != service}

    def _foreign(self, service: str, place: str, found: DataDirectory) -> NotPermitted:
        """No revision attaches data that this agent did not make: an order shows that an operator looked at it."""
        self.refused[place] = Unattached(
            service, found.path, found.files, found.size_bytes, found.names, len(found.names) < found.entries
        )
        entries = "1 entry" if found.entries == 1 else f"{found.entries} entries"
        return NotPermitted(
            f"{found.path} has {entries} ({counted(found.size_bytes, 'byte')}) that this agent did not make, so "
            f"{service} does not get it",
            remedy=f"look at it, then attach it: `holdfast volume adopt {service} -n {self._node}`; or move it away",
            code="data_not_made_here",
        )
