"""What the revision in force lets this node give, to which needs, and with which settings."""

from collections.abc import Callable, Collection

import msgspec
from msgspec import Struct

from holdfast.agent.keeper import Revision
from holdfast.errors import Failed
from holdfast.model import duration
from holdfast.model.need import Pair, Provides
from holdfast.ports.need_handler import Setting

_provides = msgspec.json.Decoder(Provides).decode

OpenSecret = Callable[[str, str, str], bytes]  # name, digest, address


class Offer(Struct, frozen=True):
    """One `[[provides]]` of this node."""

    address: str
    provides: Provides
    secrets: dict[str, str]

    @property
    def grace_s(self) -> float:
        return duration.milliseconds(self.provides.grace) / 1000

    @property
    def ttl_s(self) -> float:
        return duration.milliseconds(self.provides.ttl) / 1000 if isinstance(self.provides.ttl, str) else 0.0


class Declarations:
    """`content` reads a document of the revision by its digest."""

    def __init__(self, content: Callable[[str], bytes | None], secret: OpenSecret, node: str) -> None:
        self._content = content
        self._secret = secret
        self._node = node
        self.number = 0
        self.pairs: dict[tuple[str, str, str], Pair] = {}  # service, need, consumer
        self.keys: dict[str, str] = {}  # node → its key line
        self.removed: Collection[str] = ()  # nodes that an operator removed
        self.offers: dict[str, Offer] = {}  # by type

    def follow(self, revision: Revision) -> None:
        manifest = revision.manifest
        mine = [pair for pair in manifest.pairs if pair.provider == self._node]
        self.number = revision.number
        self.pairs = {(pair.service, pair.need, pair.consumer): pair for pair in mine}
        self.keys = {name: peer.key for name, peer in manifest.peers.items() if any(p.consumer == name for p in mine)}
        self.removed = {address[5:] for address in manifest.retired if address.startswith("node.")}
        self.offers = {}
        for address, entry in manifest.more.items():
            if address.startswith("provides."):
                provides = self._read(address, entry.digest)
                self.offers[provides.type] = Offer(address, provides, dict(entry.secrets))

    def _read(self, address: str, digest: str) -> Provides:
        try:
            return _provides(self._content(digest) or b"")
        except msgspec.DecodeError as trouble:
            raise Failed(
                f"the content of {address} cannot be read from this node's own state: {trouble}",
                remedy="holdfast agent check; the next apply that changes it brings it again",
                code="content_missing",
            ) from trouble

    def setting(self, type: str) -> Setting:
        """With the secret opened, for one call of a handler."""
        offer = self.offers.get(type)
        if offer is None:
            raise Failed(
                f"this node does not provide {type} any more, so it cannot reach what it made",
                remedy=f"declare [[provides]] of type {type} for it again until its credentials are gone",
                code="not_provided",
            )
        name = offer.provides.params.get("secret", "")
        secret = self._secret(name, offer.secrets[name], offer.address) if name in offer.secrets else b""
        return Setting(offer.provides.params, secret)
