"""The needs of the services that this node runs, as the revision in force says, and the providers to ask."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from holdfast.agent.keeper import Revision
from holdfast.errors import TryLater
from holdfast.model.fleet import Service
from holdfast.model.need import Need, Want
from holdfast.ports.agent_link import Callee
from holdfast.ports.need_files import NeedKey
from holdfast.trust.certificates import listener_name

_service = msgspec.json.Decoder(Service).decode


class Declared(Struct, frozen=True):
    service: str
    need: Need
    want: Want

    @property
    def key(self) -> NeedKey:
        return self.service, self.need.name


class Declarations:
    """`content` reads a document of the revision by its digest. `complete` is False while one is missing: then nothing
    is given back."""

    def __init__(self, content: Callable[[str], bytes | None]) -> None:
        self._content = content
        self._revision: Revision | None = None
        self.found: dict[NeedKey, Declared] = {}
        self.complete = False

    @property
    def revision(self) -> int:
        return self._revision.number if self._revision is not None else 0

    def follow(self, revision: Revision) -> None:
        self._revision, self.complete = revision, True
        found: dict[NeedKey, Declared] = {}
        for address, entry in sorted(revision.manifest.services.items()):
            service = address.partition(".")[2]
            for need in self._needs(entry.digest) if entry.wants else ():
                if need.name in entry.wants:
                    found[service, need.name] = Declared(service, need, entry.wants[need.name])
        self.found = found

    def _needs(self, digest: str) -> tuple[Need, ...]:
        try:
            return _service(self._content(digest) or b"").needs
        except msgspec.DecodeError:  # told by the keeper of the services
            self.complete = False
            return ()

    def is_required(self, key: NeedKey) -> bool:
        return key in self.found and self.found[key].need.required

    def callee(self, provider: str) -> Callee:
        """How the revision in force pins that node. An operator records it with an apply once the node joined."""
        revision = self._revision
        peer = revision.manifest.peers.get(provider) if revision is not None else None
        issuer = revision.manifest.issuers.get(provider) if revision is not None else None
        if revision is None or peer is None or not peer.address or not issuer:
            raise TryLater(
                f"the revision does not say yet how to reach {provider} and by which certificate to know it",
                remedy=f"`holdfast node list` shows whether {provider} has joined; then `holdfast apply` records it",
                code="provider_not_pinned",
            )
        name = listener_name(provider, ("provider",), revision.document.settings)
        return Callee(provider, peer.address, peer.key, issuer, name, revision.manifest.fleet)
