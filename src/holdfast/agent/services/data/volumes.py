"""The volumes of this node. Each has a passport, in the journal and, signed by this node, beside the data.

A container gets a volume only through `attach`: data that this agent did not make needs an operator's order, and a new
writer gets data only after a checkpoint.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError, NotPermitted, TryLater
from holdfast.gate.acts import Act, Provenance
from holdfast.gate.authority import by_revision
from holdfast.gate.decide import Deed, Park, decide
from holdfast.gate.facts import Facts, data
from holdfast.model.container import ContainerSpec, Guest, Part
from holdfast.model.order import VerifiedOrder
from holdfast.model.passport import NAMESPACE, TAKEN_OVER, Bound, Passport, SignedPassport
from holdfast.model.report import Unattached
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.journal import Journal
from holdfast.ports.storage import DataDirectory, Storage
from holdfast.reconcile.writers import writer, writers_of
from holdfast.trust import own_signature

PREFIX = "services/volume/"
SINCE = "services/volumes-since"  # the first start of a release that keeps passports

_passport = msgspec.json.Decoder(Passport).decode
_signed = msgspec.json.Decoder(SignedPassport).decode
_bound = msgspec.json.Decoder(Bound).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Admission(Struct, frozen=True):
    """The containers that get the volumes together with this one, and the deployment that admits them."""

    writers: frozenset[str]
    deployment: str


ALONE = Admission(frozenset(), "")  # a container that must have been admitted before


class Volumes:
    def __init__(
        self, *, journal: Journal, storage: Storage, key: IdentityKey, fleet: str, node: str, data_dir: str
    ) -> None:
        self._journal = journal
        self._storage = storage
        self._key = key
        self._fleet = fleet
        self._node = node
        self._data_dir = data_dir
        self._refused: dict[str, Unattached] = {}  # by place
        self._known = {fact.removeprefix(PREFIX): _passport(text) for fact, text in journal.facts(PREFIX).items()}

    # ---- looking

    def of(self, place: str) -> Passport | None:
        """From the journal; if it is not there, from the signed copy beside the data."""
        if place not in self._known:
            found = self._copy(place)
            if found is None:
                return None
            self._keep(found)
        return self._known[place]

    def _copy(self, place: str) -> Passport | None:
        text = self._storage.passport(place)
        if text is None:
            return None
        with suppress(HoldfastError, *_UNREADABLE):
            signed = _signed(text)
            own_signature.verify(signed.text, signed.signature, NAMESPACE, self._key.line)
            bound = _bound(signed.text)
            if (bound.fleet, bound.node, bound.passport.place) == (self._fleet, self._node, place):
                return bound.passport
        return None

    def owed(self, guest: Guest, runs: bool) -> frozenset[str]:
        """Components whose data must be copied before `guest` gets it. `runs`: a container of the service may write
        now, so that a volume which is empty now may have data in a moment."""
        return frozenset(part.spec.component for part in guest.parts if self._owes(part, guest.deployment, runs))

    def _owes(self, part: Part, deployment: str, runs: bool) -> bool:
        writers = writers_of(part)
        for place in self._places(part.spec):
            passport = self.of(place)
            if passport is None or passport.admits(writers, deployment):
                continue
            if runs or _has_data(self._storage.content(place)):
                return True
        return False

    def _places(self, spec: ContainerSpec) -> list[str]:
        """Of its mounts those inside the directory of its own service."""
        return [place for mount in spec.mounts if (place := self._place(spec.service, mount.source)) is not None]

    def _place(self, service: str, source: str) -> str | None:
        own = f"{self._data_dir}/{service}"
        return source[len(self._data_dir) + 1 :] if source == own or source.startswith(own + "/") else None

    @property
    def unattached(self) -> tuple[Unattached, ...]:
        """Directories that were refused to the services that are applied now."""
        return tuple(one for place, one in sorted(self._refused.items()) if place not in self._known)

    # ---- attaching

    def prepare(self, spec: ContainerSpec, deployment: str) -> None:
        """Everything that it mounts exists afterwards, and is this agent's own. It may be created, not started."""
        for mount in spec.mounts:
            place = self._place(spec.service, mount.source)
            if place is not None and self.of(place) is None:
                self._refuse_foreign(spec.service, place, self._storage.content(place))
                self._keep(Passport(place, spec.service, deployment or TAKEN_OVER))
            if place is not None and place.count("/") == 1:
                self._storage.volume(spec.service, place.partition("/")[2])
            else:
                self._storage.host_path(spec.service, mount.source)  # acceptance has judged paths of the host

    def attach(self, spec: ContainerSpec, admission: Admission = ALONE) -> None:
        """It may be started, and write into its volumes."""
        self.prepare(spec, admission.deployment)
        writers = admission.writers | {writer(spec)}
        for place in self._places(spec):
            self._admit(spec.service, place, writers, admission.deployment)

    def _admit(self, service: str, place: str, writers: frozenset[str], deployment: str) -> None:
        passport = self._known[place]
        if passport.admits(writers, deployment):
            return
        if _has_data(self._storage.content(place)):
            raise TryLater(
                f"{self._data_dir}/{place} has data, and this container of {service} may not write into it before a "
                "checkpoint is made",
                remedy=f"`holdfast deploy {service}`: its rollout makes the checkpoint",
                code="checkpoint_owed",
            )
        self._keep(_in_attempt(passport, writers, deployment))

    def _refuse_foreign(self, service: str, place: str, found: DataDirectory | None) -> None:
        """No revision attaches data that this agent did not make: an order shows that an operator looked at it."""
        facts = Facts(Provenance.FOREIGN, data(found))
        deed = Deed(Act.ATTACH_DATA, f"data.{service}", self._node, facts, by_revision(0, "apply"))
        if not isinstance(decide(deed), Park):
            return
        assert found is not None
        self._refused[place] = Unattached(
            service, found.path, found.files, found.size_bytes, found.names, len(found.names) < found.entries
        )
        raise NotPermitted(
            f"{found.path} has {found.entries} entries ({found.size_bytes} bytes) that this agent did not make, so "
            f"{service} does not get it",
            remedy=f"look at it, then attach it: `holdfast volume adopt {service} -n {self._node}`; or move it away",
            code="data_not_made_here",
        )

    # ---- writing down

    def checkpointed(self, part: Part, deployment: str, checkpoint: str) -> None:
        """Its data is copied: the writers of this attempt may have it."""
        for place in self._places(part.spec):
            passport = self.of(place)
            if passport is not None:
                self._keep(replace(_in_attempt(passport, writers_of(part), deployment), checkpoint=checkpoint))

    def failed(self, service: str) -> None:
        """The attempt is over: its writers get the data again only after another checkpoint."""
        for passport in list(self._known.values()):
            if passport.service == service:
                self._keep(replace(passport, deployment="", attempt=()))

    def proven(self, guest: Guest) -> None:
        """It serves: its writers, and no others, have its volumes from now on."""
        for place, writers in self._writers(guest.parts).items():
            passport = self.of(place)
            if passport is not None:
                self._keep(replace(passport, writers=tuple(sorted(writers)), deployment="", attempt=()))

    def _writers(self, parts: Iterable[Part]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for part in parts:
            for place in self._places(part.spec):
                found.setdefault(place, set()).update(writers_of(part))
        return found

    def adopt(self, service: str, order: str, guest: Guest | None) -> list[str]:
        """Give passports to the volumes of a service that have none; answers their paths. No writer is known, so that
        a checkpoint is made before one gets the data."""
        places = {place for part in (guest.parts if guest else ()) for place in self._places(part.spec)}
        lacking = sorted(place for place in places if self.of(place) is None)
        self._refused = {place: one for place, one in self._refused.items() if one.service != service}
        for place in lacking:
            self._keep(Passport(place, service, order))
        return [f"{self._data_dir}/{place}" for place in lacking]

    def forget(self, service: str, proof: VerifiedOrder) -> None:
        """Its data is gone."""
        self._storage.drop_passports(service, proof)
        for place in [place for place, passport in self._known.items() if passport.service == service]:
            self._journal.drop_fact(PREFIX + place)
            del self._known[place]

    def take_over(self, served: Mapping[str, Guest], begun: Mapping[str, Guest]) -> None:
        """Once, at the first start of a release that keeps passports. What served wrote its data; of what was only
        begun no writer is known."""
        if self._journal.fact(SINCE) is not None:
            return
        for guests, has_written in ((served, True), (begun, False)):
            for service, guest in guests.items():
                for place, writers in self._writers(guest.parts).items():
                    if self.of(place) is None and self._storage.content(place) is not None:
                        self._keep(Passport(place, service, TAKEN_OVER, tuple(sorted(writers)) if has_written else ()))
        self._journal.set_aside(SINCE, b"1")

    def _keep(self, passport: Passport) -> None:
        if self._known.get(passport.place) == passport:
            return
        bound = msgspec.json.encode(Bound(self._fleet, self._node, passport))
        signed = SignedPassport(bound, own_signature.armoured(self._key, bound, NAMESPACE))
        self._journal.set_aside(PREFIX + passport.place, msgspec.json.encode(passport))
        self._known[passport.place] = passport
        self._storage.keep_passport(passport.place, msgspec.json.encode(signed))


def _in_attempt(passport: Passport, writers: frozenset[str], deployment: str) -> Passport:
    known = set(passport.attempt) if passport.deployment == deployment else set()
    return replace(passport, deployment=deployment, attempt=tuple(sorted(known | writers)))


def _has_data(found: DataDirectory | None) -> bool:
    return found is not None and found.entries > 0
