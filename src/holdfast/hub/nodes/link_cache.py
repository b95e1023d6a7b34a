"""What a node needs to follow to the head: links and its manifest. Caches the newest links for all nodes."""

from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model.applied import Applied, content
from holdfast.model.checkin import LINKS_MAX
from holdfast.model.record import Link
from holdfast.model.revision import Head
from holdfast.ports.hub_link import HubReader

KEPT_MAX = 512


class Offer(Struct, frozen=True):
    links: tuple[Link, ...] = ()
    manifest: bytes = b""


NOTHING = Offer()


class LinkCache:
    def __init__(self, hub: HubReader) -> None:
        self._hub = hub
        self._kept: dict[int, Link] = {}

    def offer(self, node: str, seen: Head, applied: Applied) -> Offer:
        links = self.after(seen, applied.head)
        return Offer(links, _manifest(node, applied))

    def after(self, seen: Head, head: Head) -> tuple[Link, ...]:
        """In order, at most as many as fit into one answer."""
        first, last = seen.number + 1, min(seen.number + LINKS_MAX, head.number)
        missing = [number for number in range(first, last + 1) if number not in self._kept]
        if missing:
            for number, link in zip(missing, self._fetched(missing), strict=True):
                self._kept[number] = link
            while len(self._kept) > KEPT_MAX:
                del self._kept[min(self._kept)]
        return tuple(self._kept[n] if n in self._kept else self._hub.links(n, n)[0] for n in range(first, last + 1))

    def _fetched(self, numbers: list[int]) -> list[Link]:
        if numbers[-1] - numbers[0] + 1 == len(numbers):
            return list(self._hub.links(numbers[0], numbers[-1]))
        return [self._hub.links(number, number)[0] for number in numbers]


def _manifest(node: str, applied: Applied) -> bytes:
    digest = applied.header.manifests.get(node)
    if digest is None:
        raise Corrupt(
            f"revision {applied.head.number} has no manifest of {node}",
            remedy="`holdfast hub check` names what is damaged",
            code="manifest_missing",
        )
    return content(applied.contents, digest, f"the manifest of {node}")
