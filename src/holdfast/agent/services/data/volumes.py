"""The volumes of this node. Each has a passport (passports.py).

A container gets a volume only through `attach`: data that this agent did not make needs an operator's order, and a new
writer gets data only after a checkpoint.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.services.data.filling import Filling, Places, has_data, measure
from holdfast.agent.services.data.mounts import Mounts
from holdfast.agent.services.data.passports import Passports
from holdfast.errors import TryLater
from holdfast.model.container import ContainerSpec, Guest, Part
from holdfast.model.passport import TAKEN_OVER, Passport
from holdfast.model.report import Unattached
from holdfast.ports.journal import Journal
from holdfast.ports.storage import DataDirectory, Storage
from holdfast.reconcile.writers import writer, writers_of

OWED = "checkpoint_owed"
SINCE = "services/volumes-since"  # the first start of a release that keeps passports


class Admission(Struct, frozen=True):
    """The containers that get the volumes together with this one, and the deployment that admits them. `off`: sources
    of which no checkpoint is made."""

    writers: frozenset[str]
    deployment: str
    off: frozenset[str] = frozenset()


ALONE = Admission(frozenset(), "")  # a container that must have been admitted before


class Volumes:
    def __init__(
        self,
        *,
        passports: Passports,
        journal: Journal,
        storage: Storage,
        mounts: Mounts,
        filling: Filling,
        data_dir: str,
    ) -> None:
        self._passports = passports
        self._journal = journal
        self._storage = storage
        self._mounts = mounts
        self._filling = filling
        self._data_dir = data_dir

    # ---- looking

    def owed(self, guest: Guest, runs: bool) -> frozenset[str]:
        """Components whose data must be copied before `guest` gets it. `runs`: a container of the service may write
        now, so that a volume which is empty now may have data in a moment."""
        return frozenset(part.spec.component for part in guest.parts if self._owes(part, guest.deployment, runs))

    def _owes(self, part: Part, deployment: str, runs: bool) -> bool:
        writers = writers_of(part)
        for place in self._places(part.spec):
            passport = self._passports.of(place)
            if passport is None or passport.admits(writers, deployment) or f"{self._data_dir}/{place}" in part.off:
                continue
            found = self._storage.content(place)
            if not self._is_unused(passport, found) and (runs or has_data(found)):
                return True
        return False

    def _is_unused(self, passport: Passport, found: DataDirectory | None) -> bool:
        """No container has had it, nor a directory around or inside it: it has what it began with."""
        others = (one.place for one in self._passports.of_service(passport.service))
        return passport.began == measure(found) and not any(_overlap(passport.place, other) for other in others)

    def _places(self, spec: ContainerSpec) -> list[str]:
        """Of its mounts those inside the directory of its own service."""
        return [place for place, _ in self.mounted(spec)]

    def mounted(self, spec: ContainerSpec) -> Places:
        found = ((self._place(spec.service, mount.source), mount) for mount in spec.mounts)
        return [(place, mount) for place, mount in found if place is not None]

    def _place(self, service: str, source: str) -> str | None:
        own = f"{self._data_dir}/{service}"
        return source[len(self._data_dir) + 1 :] if source == own or source.startswith(own + "/") else None

    @property
    def unattached(self) -> tuple[Unattached, ...]:
        """Directories that were refused to the services that are applied now."""
        refused = sorted(self._mounts.refused.items())
        return tuple(one for place, one in refused if place not in self._passports.known)

    # ---- attaching

    def prepare(self, spec: ContainerSpec, deployment: str) -> None:
        """Everything that it mounts exists afterwards, and is this agent's own. It may be created, not started."""
        made = {place: self._passports.of(place) is not None for place in self._places(spec)}
        allowed = self._mounts.may_all(spec.service, made)
        for mount in spec.mounts:
            place = self._place(spec.service, mount.source)
            if place is None:
                self._mounts.reach(spec.service, mount.source)
                continue
            if self._passports.of(place) is None:
                maker, is_missing = deployment or TAKEN_OVER, self._storage.content(place) is None
                is_new, began = is_missing and place.count("/") == 1, (0, 0) if is_missing else ()
                self._passports.keep(Passport(place, spec.service, maker, is_new=is_new, began=began))
            self._mounts.make(spec.service, place, allowed[place])

    async def ready(self, spec: ContainerSpec, deployment: str, reader: str) -> None:
        """The same; new volumes also have what they begin with. `reader`: see Filling."""
        self.prepare(spec, deployment)
        await self._filling.fill(spec, self.mounted(spec), reader)

    async def own(self, spec: ContainerSpec) -> None:
        """The volumes belong to the owners that are declared. After `attach`, and before the start."""
        await self._filling.own(spec.service, self.mounted(spec))

    def attach(self, spec: ContainerSpec, admission: Admission = ALONE) -> None:
        """It may be started, and write into its volumes."""
        self.prepare(spec, admission.deployment)
        writers = admission.writers | {writer(spec)}
        for place in self._places(spec):
            is_off = f"{self._data_dir}/{place}" in admission.off
            self._admit(spec.service, place, writers, admission.deployment, is_off)

    def _admit(self, service: str, place: str, writers: frozenset[str], deployment: str, is_off: bool) -> None:
        passport = self._passports.known[place]
        if passport.admits(writers, deployment):
            return
        found = self._storage.content(place)
        if not is_off and has_data(found) and not self._is_unused(passport, found):
            raise TryLater(
                f"{self._data_dir}/{place} has data, and this container of {service} may not write into it before a "
                "checkpoint is made",
                remedy=f"`holdfast restart {service}` makes the checkpoint",
                code=OWED,
            )
        self._passports.keep(_in_attempt(passport, writers, deployment))

    # ---- writing down

    def checkpointed(self, part: Part, deployment: str, checkpoint: str) -> None:
        """Its data is copied: the writers of this attempt may have it."""
        for place in self._places(part.spec):
            passport = self._passports.of(place)
            if passport is not None:
                self._passports.keep(
                    replace(_in_attempt(passport, writers_of(part), deployment), checkpoint=checkpoint)
                )

    def failed(self, service: str) -> None:
        """The attempt is over: its writers get the data again only after another checkpoint."""
        for passport in self._passports.of_service(service):
            self._passports.keep(replace(passport, deployment="", attempt=()))

    def proven(self, guest: Guest, revision: int) -> None:
        """It serves: its writers, and no others, have its volumes from now on."""
        for place, writers in self.writers(guest.parts).items():
            passport = self._passports.of(place)
            if passport is not None:
                self._passports.keep(proven_by(passport, writers, revision, guest.epoch))

    def make_up(self, guest: Guest, revision: int) -> None:
        """What serves was not written down as proven: an agent died, or the disk was full, right after the switch. Not
        where it still owes a checkpoint, because its data was restored since, nor where another deployment is tried."""
        if all(passport.deployment != guest.deployment for passport in self._passports.of_service(guest.service)):
            return
        for place, writers in self.writers(guest.parts).items():
            passport = self._passports.of(place)
            if passport is None or passport.deployment not in ("", guest.deployment):
                continue
            if passport.admits(frozenset(writers), guest.deployment):
                self._passports.keep(proven_by(passport, writers, revision, guest.epoch))

    def writers(self, parts: Iterable[Part]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for part in parts:
            for place in self._places(part.spec):
                found.setdefault(place, set()).update(writers_of(part))
        return found

    def adopt(self, service: str, order: str, guest: Guest | None) -> list[str]:
        """Give passports to the volumes of a service that were refused to it and reported; answers their paths. No
        writer is known, so that a checkpoint is made before one gets the data."""
        places = {place for part in (guest.parts if guest else ()) for place in self._places(part.spec)}
        shown = (place for place in places & self._mounts.refused.keys() if self._storage.content(place) is not None)
        lacking = sorted(place for place in shown if self._passports.of(place) is None)
        self._mounts.forget_refused(service)
        for place in lacking:
            self._passports.keep(Passport(place, service, order))
        return [f"{self._data_dir}/{place}" for place in lacking]

    def take_over(self, served: Mapping[str, Guest], begun: Mapping[str, Guest]) -> None:
        """Once, at the first start of a release that keeps passports. What served wrote its data; of what was only
        begun no writer is known."""
        if self._journal.fact(SINCE) is not None:
            return
        for guests, has_written in ((served, True), (begun, False)):
            for service, guest in guests.items():
                for place, writers in self.writers(guest.parts).items():
                    if self._passports.of(place) is None and self._storage.content(place) is not None:
                        self._passports.keep(
                            Passport(place, service, TAKEN_OVER, tuple(sorted(writers)) if has_written else ())
                        )
        self._journal.set_aside(SINCE, b"1")


def _in_attempt(passport: Passport, writers: frozenset[str], deployment: str) -> Passport:
    """A volume that a container gets is not new any more: what is in it is that container's data."""
    known = set(passport.attempt) if passport.deployment == deployment else set()
    attempt = tuple(sorted(known | writers))
    return replace(passport, deployment=deployment, attempt=attempt, is_new=False, began=())


def proven_by(passport: Passport, writers: Iterable[str], revision: int, epoch: int) -> Passport:
    by = {"writers": tuple(sorted(writers)), "revision": revision, "epoch": epoch}
    return replace(passport, deployment="", attempt=(), began=(), **by)


def _overlap(one: str, other: str) -> bool:
    return one.startswith(other + "/") or other.startswith(one + "/")
