"""An operator's sessions: one short-lived key per fleet, certified by the operator's key."""

from typing import Protocol

from msgspec import Struct

from holdfast.model.session import SessionCertificate
from holdfast.ports.identity_key import IdentityKey


class Session(Struct, frozen=True):
    key: IdentityKey
    certificate: SessionCertificate


class Sessions(Protocol):
    def session(self, fleet: str) -> Session:
        """A session with time left. May need the operator's signature, hence a passphrase or a touch.

        `fleet` is "" before the first revision.
        """
        ...

    def forget(self, fleet: str) -> None:
        """The hub refused this session; the next call creates another one."""
        ...
