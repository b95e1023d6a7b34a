"""Sessions in files of the operator: one per fleet and operator key, valid for at most 12 hours."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from holdfast.adapters.identity_key import file as key_file
from holdfast.errors import HoldfastError
from holdfast.model import canonical, ssh_key
from holdfast.model.session import (
    NAMESPACE,
    SESSION_S_MAX,
    SessionCertificate,
    SessionGrant,
    decode_grant,
)
from holdfast.ports.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports.clock import Clock
    from holdfast.ports.disk import Disk
    from holdfast.ports.random_source import RandomSource
    from holdfast.ports.signer import Signer

LEFT_S_MIN = 600
FILE_BYTES_MAX = 64 * 1024


class Kept(msgspec.Struct, frozen=True):
    key: bytes  # the OpenSSH private key file
    certificate: SessionCertificate


class FileSessions:
    """`signer` gives its public key for every fleet, and signs only when no valid session is left."""

    def __init__(
        self, folder: str, disk: Disk, clock: Clock, random: RandomSource, signer: Callable[[], Signer]
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._clock = clock
        self._random = random
        self._signer = signer
        self._held: dict[str, Session] = {}

    def session(self, fleet: str) -> Session:
        held = self._held.get(fleet) or self._kept(fleet)
        if held is None or not self._lasts(held):
            held = self._made(fleet)
        self._held[fleet] = held
        return held

    def forget(self, fleet: str) -> None:
        self._held.pop(fleet, None)
        with suppress(HoldfastError):
            self._disk.replace(self._path(fleet), b"", 0o600)

    def _kept(self, fleet: str) -> Session | None:
        """None for any defect of the file: the remedy is always a new session."""
        path = self._path(fleet)
        try:
            content = self._disk.read(path, FILE_BYTES_MAX)
            kept = msgspec.json.decode(content or b"", type=Kept)
            grant = decode_grant(kept.certificate.grant)
            key = key_file.read(kept.key, path)
        except (HoldfastError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        if (grant.fleet, grant.operator, grant.session) != (fleet, self._operator(), key.line):
            return None
        return Session(key, kept.certificate)

    def _lasts(self, session: Session) -> bool:
        grant, now_s = decode_grant(session.certificate.grant), self._clock.now_s()
        return grant.not_before_s <= now_s and now_s + LEFT_S_MIN < grant.expires_s

    def _made(self, fleet: str) -> Session:
        key, content = key_file.made(self._random)
        now_s = int(self._clock.now_s())
        grant = canonical.encode(SessionGrant(fleet, self._operator(), key.line, now_s, now_s + SESSION_S_MAX))
        certificate = SessionCertificate(grant, self._signer().sign(grant, NAMESPACE))
        with suppress(HoldfastError):  # an unwritable home costs a signature per command, but no command fails
            self._disk.make_directory(self._folder, 0o700)
            self._disk.replace(self._path(fleet), msgspec.json.encode(Kept(content, certificate)), 0o600)
        return Session(key, certificate)

    def _operator(self) -> str:
        return ssh_key.line(self._signer().public_key)

    def _path(self, fleet: str) -> str:
        name = sha256(f"{fleet}\n{self._operator()}".encode()).hexdigest()[:32]
        return os.path.join(self._folder, f"{name}.json")
