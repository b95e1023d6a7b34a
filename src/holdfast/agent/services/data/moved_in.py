"""Passports for data that came from another node."""

from holdfast.agent.services.data.passports import Passports
from holdfast.agent.services.data.volumes import Volumes, proven_by
from holdfast.model.container import Guest
from holdfast.model.passport import Passport


class MovedIn:
    def __init__(self, volumes: Volumes, passports: Passports) -> None:
        self._volumes = volumes
        self._passports = passports

    def note(self, guest: Guest, maker: str, revision: int) -> None:
        """The other node keeps its own: that copy is what a checkpoint would be."""
        owners = {place: mount.owner for part in guest.parts for place, mount in self._volumes.mounted(part.spec)}
        for place, writers in self._volumes.writers(guest.parts).items():
            passport = Passport(place, guest.service, maker, owner=owners[place])
            self._passports.keep(proven_by(passport, writers, revision, guest.epoch))

    def epoch(self, service: str) -> int:
        """Of the data that is here, by the signed copies beside it; 0: none, or not known."""
        return max((one.epoch for one in self._passports.beside(service)), default=0)
