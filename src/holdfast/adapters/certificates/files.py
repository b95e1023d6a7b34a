"""A node's issuer and serving certificate: four files (0600) in the agent's state directory."""

import os
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric import ec

from holdfast.adapters.certificates import chain as chains
from holdfast.adapters.certificates import issuer as issuing
from holdfast.adapters.certificates import x509
from holdfast.errors import Corrupt, Invalid, NotPermitted
from holdfast.model.certificate import CertificateFacts, ChainFacts, Constraints, Issued
from holdfast.ports.disk import Disk
from holdfast.trust.certificates import leaf_due, needs_reissue

FILE_BYTES_MAX = 64 * 1024
ISSUER_KEY, ISSUER_CRT, SERVING_KEY, SERVING_CRT = "issuer.key", "issuer.crt", "serving.key", "serving.crt"


class X509Certificates:
    def __init__(self, state_dir: str, disk: Disk) -> None:
        self._dir = state_dir
        self._disk = disk

    def issuer(self, node: str, wanted: Constraints, now_s: float) -> bytes:
        private = self._key(ISSUER_KEY) or self._new_key()
        kept = self._certificate(ISSUER_CRT, private)
        if kept is None or needs_reissue(x509.facts(kept), wanted, now_s) is not None:
            kept = issuing.make_issuer(private, node, wanted, now_s)
            self._write(ISSUER_CRT, kept)
        return x509.der_of(kept)

    def serving(self, names: Sequence[str], now_s: float, anew: bool = False) -> Issued:
        above, private = self._issuer()
        kept = None if anew else self._kept(above)
        if kept is not None and not leaf_due(kept.facts, names, now_s):
            return kept
        made = issuing.issue(above, private, names, now_s)
        self._write(SERVING_KEY, made.private)
        self._write(SERVING_CRT, made.chain)
        return made

    def issue(self, names: Sequence[str], now_s: float) -> Issued:
        above, private = self._issuer()
        return issuing.issue(above, private, names, now_s)

    def facts(self, certificate: bytes) -> CertificateFacts:
        return x509.facts(certificate)

    def chain(self, chain: bytes, private: bytes) -> ChainFacts:
        return chains.facts(chain, private)

    def current(self) -> bytes:
        return x509.der_of(self._issuer()[0])

    # ---- files

    def _issuer(self) -> tuple[bytes, ec.EllipticCurvePrivateKey]:
        private = self._key(ISSUER_KEY)
        kept = None if private is None else self._certificate(ISSUER_CRT, private)
        if private is None or kept is None:
            raise NotPermitted(
                "this node has no issuing certificate yet",
                remedy="it gets one with the first revision it accepts: holdfast apply",
                code="no_issuer",
            )
        return kept, private

    def _kept(self, above: bytes) -> Issued | None:
        """The stored leaf, if it is complete and from this issuer; otherwise None, and a new one is issued."""
        try:
            key, chain = self._key(SERVING_KEY), self._read(SERVING_CRT)
        except (Corrupt, Invalid):
            return None
        if key is None or chain is None or not _belong(chain, key) or not chain.endswith(above):
            return None
        return Issued(chain, x509.pkcs8(key), x509.facts(chain))

    def _new_key(self) -> ec.EllipticCurvePrivateKey:
        private = issuing.make_key()
        self._write(ISSUER_KEY, x509.pkcs8(private))  # durable before a certificate refers to it
        return private

    def _key(self, name: str) -> ec.EllipticCurvePrivateKey | None:
        content = self._read(name)
        if content is None:
            return None
        found = x509.private_key(content)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise Corrupt(
                f"{os.path.join(self._dir, name)} is not an ECDSA private key written by holdfast",
                remedy=f"restore it from a backup of this node, or delete it to get a new key: "
                f"rm {os.path.join(self._dir, name)}",
                code="key_unreadable",
            )
        return found

    def _certificate(self, name: str, private: ec.EllipticCurvePrivateKey) -> bytes | None:
        """None also if it cannot be read or belongs to another key: it can be issued again."""
        content = self._read(name)
        return content if content is not None and _belong(content, private) else None

    def _read(self, name: str) -> bytes | None:
        return self._disk.read(os.path.join(self._dir, name), FILE_BYTES_MAX)

    def _write(self, name: str, content: bytes) -> None:
        self._disk.make_directory(self._dir, 0o700)
        self._disk.replace(os.path.join(self._dir, name), content, 0o600)


def _belong(certificate: bytes, private: ec.EllipticCurvePrivateKey) -> bool:
    try:
        return x509.parse(certificate).public_key() == private.public_key()
    except (Corrupt, ValueError):
        return False
