"""A person's sessions: a short-lived key per fleet that the operator's key vouched for once."""

from typing import Protocol

from msgspec import Struct

from holdfast.model.session import SessionCertificate
from holdfast.ports.identity_key import IdentityKey


class Session(Struct, frozen=True):
    key: IdentityKey
    certificate: SessionCertificate


class Sessions(Protocol):
    def session(self, fleet: str) -> Session:
        """One that lasts a while yet. May ask the operator for a signature, hence for a passphrase or a touch.

        `fleet` is "" before the first revision.
        """
        ...

    def forget(self, fleet: str) -> None:
        """The hub does not take it; the next one is made anew."""
        ...
