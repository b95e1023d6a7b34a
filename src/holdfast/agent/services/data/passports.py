"""The passports of the volumes of this node: in the journal and, signed by this node, beside the data."""

from contextlib import suppress

import msgspec
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model.checkpoint import Taken
from holdfast.model.passport import NAMESPACE, Bound, Passport, SignedPassport
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.journal import Journal
from holdfast.ports.storage import Storage
from holdfast.trust import own_signature

PREFIX = "services/volume/"

_passport = msgspec.json.Decoder(Passport).decode
_signed = msgspec.json.Decoder(SignedPassport).decode
_bound = msgspec.json.Decoder(Bound).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Passports:
    def __init__(self, *, journal: Journal, storage: Storage, key: IdentityKey, fleet: str, node: str) -> None:
        self._journal = journal
        self._storage = storage
        self._key = key
        self._fleet = fleet
        self._node = node
        found = journal.facts(PREFIX)
        self.known = {fact.removeprefix(PREFIX): _passport(text) for fact, text in found.items()}  # by place

    # ---- looking

    def of(self, place: str) -> Passport | None:
        """From the journal; if it is not there, from the signed copy beside the data."""
        if place not in self.known:
            found = self._copy(place)
            if found is None:
                return None
            self.keep(found)
        return self.known[place]

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

    def beside(self, service: str) -> list[Passport]:
        """The signed copies beside its data: newer than the journal, if that was put back."""
        found = self._storage.content(service)
        copies = (self._copy(f"{service}/{name}") for name in (found.names if found is not None else ()))
        return [one for one in copies if one is not None]

    def of_service(self, service: str) -> list[Passport]:
        return [one for _, one in sorted(self.known.items()) if one.service == service]

    def admitted(self, service: str) -> dict[str, tuple[str, ...]]:
        """By place: the writers that have the data of a service."""
        return {place: one.writers for place, one in sorted(self.known.items()) if one.service == service}

    def revision(self, service: str) -> int:
        """The one whose deployment wrote its data last; 0: not known."""
        return max((one.revision for one in self.known.values() if one.service == service), default=0)

    def epoch(self, service: str) -> int:
        """Of the deployment that wrote its data last; 0: not known."""
        return max((one.epoch for one in self.known.values() if one.service == service), default=0)

    def has_writers_of(self, service: str, deployment: str) -> bool:
        """A container of a deployment that is not proven yet may have written into its data."""
        found = (one for one in self.known.values() if one.service == service and one.deployment == deployment)
        return any(one.attempt for one in found)

    # ---- writing down

    def forget(self, service: str) -> None:
        """Its data is elsewhere, with the signed copies of its passports: or they were put back, and count again."""
        for place in [place for place, passport in self.known.items() if passport.service == service]:
            self._journal.drop_fact(PREFIX + place)
            del self.known[place]

    def restored(self, service: str, taken: Taken, stays: bool, checkpoint: str, order: str) -> None:
        """Its data is that of a checkpoint now; `taken` says who had this data, and to whom it was given. `stays`: the
        writers of now have it, too."""
        writers = taken.writers if not stays else {}
        places = {place for place, passport in self.known.items() if passport.service == service}
        for place in sorted(places | writers.keys()):
            passport = self.of(place) or Passport(place, service, order)
            if not stays:
                passport = replace(passport, writers=writers.get(place, ()), revision=taken.revision)
            passport = replace(passport, deployment="", attempt=(), is_new=False, began=())
            self.keep(replace(passport, checkpoint=checkpoint, owner=taken.owners.get(place, "")))

    def keep(self, passport: Passport) -> None:
        """The signed copy first: what is cut off in between is not in the journal, and is done again with both."""
        if self.known.get(passport.place) == passport:
            return
        bound = msgspec.json.encode(Bound(self._fleet, self._node, passport))
        signed = SignedPassport(bound, own_signature.armoured(self._key, bound, NAMESPACE))
        self._storage.keep_passport(passport.place, msgspec.json.encode(signed))
        self._journal.set_aside(PREFIX + passport.place, msgspec.json.encode(passport))
        self.known[passport.place] = passport
