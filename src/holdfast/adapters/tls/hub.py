"""What a hub shows in a handshake: a certificate of its own key, kept in a file, renewed before it expires."""

import ipaddress
import os
import ssl
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from holdfast.adapters.certificates import x509
from holdfast.adapters.tls import server
from holdfast.errors import Corrupt, Invalid
from holdfast.model import ssh_key
from holdfast.model.certificate import CertificateFacts
from holdfast.ports.clock import Clock
from holdfast.ports.disk import Disk
from holdfast.trust.certificates import checked_name, renew_due

FILE_BYTES_MAX = 64 * 1024


class HubTls:
    """`private` is the content of the hub's key file. Names once promised stay promised; `path` "" keeps nothing."""

    def __init__(self, private: bytes, names: Sequence[str], path: str, clock: Clock, disk: Disk) -> None:
        self._private = private
        self._path = path
        self._clock = clock
        self._disk = disk
        key = x509.private_key(private)
        if not isinstance(key, Ed25519PrivateKey):
            raise Invalid(
                "a hub's key is an Ed25519 key",
                remedy="`holdfast hub init --trust FINGERPRINT` makes one",
                code="key_type",
            )
        self._key = key
        kept = self._kept()
        before = (*kept[1].names, *kept[1].addresses) if kept is not None else ()
        self._names = tuple(dict.fromkeys((*before, *(_called(name) for name in names))))
        self._chain, self._facts = kept if kept is not None and self._names == before else self._made()
        if self._is_due():
            self._chain, self._facts = self._made()
        self.context: ssl.SSLContext = server.server_context(self._chain, private)

    @property
    def facts(self) -> CertificateFacts:
        return self._facts

    def renew(self) -> bool:
        if not self._is_due():
            return False
        self._chain, self._facts = self._made()
        server.reload(self.context, self._chain, self._private)
        return True

    def _is_due(self) -> bool:
        return renew_due(self._facts.not_before_s, self._facts.not_after_s, self._clock.now_s())

    def _made(self) -> tuple[bytes, CertificateFacts]:
        chain = x509.make_hub_certificate(self._key, self._names, self._clock.now_s())
        if self._path:
            self._disk.make_directory(os.path.dirname(os.path.abspath(self._path)), 0o700)
            self._disk.replace(self._path, chain, 0o600)
        return chain, x509.facts(chain)

    def _kept(self) -> tuple[bytes, CertificateFacts] | None:
        """A certificate that cannot be read or belongs to another key is made again: only the key must be kept."""
        content = self._disk.read(self._path, FILE_BYTES_MAX) if self._path else None
        if content is None:
            return None
        try:
            facts = x509.facts(content)
        except Corrupt:
            return None
        return (content, facts) if facts.self_signed and facts.key == _line(self._key) else None


def _called(name: str) -> str:
    """A hostname, or an address in the one way it is written in certificates."""
    try:
        return str(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return checked_name(name)


def _line(key: Ed25519PrivateKey) -> str:
    blob = ssh_key.pack(b"ssh-ed25519", key.public_key().public_bytes_raw())
    return ssh_key.line(ssh_key.PublicKey("ssh-ed25519", blob))
