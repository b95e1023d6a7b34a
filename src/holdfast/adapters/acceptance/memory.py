"""Accepted revisions in memory, for tests. A simulated restart passes the same object on."""

from collections.abc import Mapping, Sequence

from holdfast.adapters.acceptance.order import check_forward
from holdfast.model.record import Link
from holdfast.ports.acceptance import Accepted


class MemoryAcceptance:
    def __init__(self) -> None:
        self._newest: Accepted | None = None
        self._links: dict[int, Link] = {}
        self._blobs: dict[str, bytes] = {}

    def newest(self) -> Accepted | None:
        return self._newest

    def links(self, first: int, last: int) -> Sequence[Link]:
        return [self._links[number] for number in sorted(self._links) if first <= number <= last]

    def accept(self, links: Sequence[Link], accepted: Accepted, blobs: Mapping[str, bytes]) -> None:
        check_forward(self._newest, accepted)
        for link in links:
            self._links.setdefault(link.header.number, link)
        self._blobs = {**blobs, **self._blobs}
        self._newest = accepted

    def blob(self, digest: str) -> bytes | None:
        return self._blobs.get(digest)

    def missing(self, digests: Sequence[str]) -> list[str]:
        return [digest for digest in digests if digest not in self._blobs]

    def close(self) -> None:
        """Nothing to close."""
