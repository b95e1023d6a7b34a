"""Catch up with the newest revision: fetch every manifest on the way and judge it by the signatures that brought it.

A manifest that the hub withholds is waited for; then the change is judged by the strictest reading.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct

from holdfast.agent.acceptance import approvals, manifest_grades
from holdfast.agent.acceptance import manifest as signed_manifest
from holdfast.agent.acceptance.demanded import Signers
from holdfast.agent.acceptance.manifest import Followed
from holdfast.agent.acceptance.manifest_grades import NoGround
from holdfast.agent.acceptance.rules_note import RulesNote
from holdfast.errors import Corrupt, Failed, TryLater
from holdfast.model import canonical
from holdfast.model.manifest import NodeManifest
from holdfast.model.record import Link
from holdfast.model.revision import Header
from holdfast.model.trust import Trust
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.clock import Clock
from holdfast.ports.fleet_link import FleetLink
from holdfast.trust.approval import verified_keys

REVISIONS_BACK = 100  # the hub sends manifests of this many revisions back (hub/nodes/node_contents.py)
WITHHELD_S = 3600.0  # how long to wait for a missing manifest; a rebuilt ledger has lost it for good
_WITHHELD_MAX = 1000


class Step(Struct, frozen=True):
    """One verified link, and the trust that judges what it brings."""

    link: Link
    trust: Trust
    vouched: bool = False  # the revision that the inviting operator named: grading starts with its content

    @property
    def header(self) -> Header:
        return self.link.header

    def witness(self) -> Signers:
        return verified_keys(self.link.header_bytes, self.link.signatures), self.trust


class Arrived(Struct, frozen=True):
    """`said` is the newest manifest of this node that was read; `unread`: newer ones were never seen."""

    standing: Followed
    said: bytes
    unread: bool
    blobs: dict[str, bytes]


class CatchUp:
    def __init__(
        self, *, link: FleetLink, acceptance: Acceptance, rules: RulesNote, clock: Clock, fleet: str, node: str
    ) -> None:
        self._link = link
        self._acceptance = acceptance
        self._rules = rules
        self._clock = clock
        self._fleet = fleet
        self._node = node
        self._withheld: dict[str, float] = {}  # digest → when it was asked for first

    def is_level_with(self, number: int) -> None:
        """The hub's head is what this node has accepted."""
        with suppress(Failed):  # noted by the next check-in
            self._rules.met(number)

    async def travel(
        self, steps: Sequence[Step], standing: Followed, said: bytes, unread: bool, offered: bytes
    ) -> Arrived:
        """`said` was read last; `unread`: newer ones exist. `offered` is the manifest in the hub's answer."""
        blobs: dict[str, bytes] = {}
        read = canonical.digest(said) if said else ""
        # Signers of manifests that were not read yet. For those left unread by an earlier run, none is known.
        pending: list[Signers] = [((), steps[0].trust)] if unread else []
        previous = "" if unread else read
        now_s = float(int(self._clock.now_s()))
        newest = steps[-1].header.number
        since = self._rules.met(newest)
        no_ground: NoGround | None = None
        for step in _after_vouched(steps):
            named = step.header.manifests.get(self._node)
            if named is None:
                continue
            if named != previous:
                pending.append(step.witness())
            previous = named
            if named == read:
                pending.clear()
                continue
            must = step.vouched or step is steps[-1]
            if not must and step.header.number <= newest - REVISIONS_BACK:
                continue
            found = await self._manifest(named, offered, blobs, must, step.vouched)
            if found is None:
                continue
            read, (said, manifest) = named, found
            try:
                if step.vouched:
                    standing = Followed(manifest, manifest)
                else:
                    contents = Held(self._acceptance, blobs)
                    with _understood():
                        number = step.header.number
                        judged = manifest_grades.judge(
                            standing, manifest, pending, contents, number, now_s, since.of(number)
                        )
                        standing = approvals.noted(standing, judged, pending, contents)
                no_ground = None
            except NoGround as trouble:
                standing, no_ground = Followed(None, manifest), trouble
            pending.clear()
        if no_ground is not None:
            raise no_ground
        self._withheld.clear()
        return Arrived(standing, said, bool(pending), blobs)

    async def _manifest(
        self, digest: str, offered: bytes, blobs: dict[str, bytes], must: bool, vouched: bool
    ) -> tuple[bytes, NodeManifest] | None:
        """The manifest with its contents. None: it stays unread, because the wait is over or it is invalid."""
        content = offered if canonical.digest(offered) == digest else await self.fetch(digest)
        if content is None:
            self._wait_for(digest, "the manifest that was signed for this node", must, vouched)
            return None
        try:
            manifest = signed_manifest.read_manifest(content, self._fleet, self._node)
        except Corrupt:
            if must:
                raise
            return None
        wanted = [needed for needed in signed_manifest.needed(manifest) if needed not in blobs]
        fetched: dict[str, bytes] = {}
        for needed in self._acceptance.missing(wanted):
            found = await self.fetch(needed)
            if found is None:
                self._wait_for(needed, f"the content {needed[:12]}…, which this node needs", must, vouched)
                return None
            fetched[needed] = found
        blobs |= fetched
        return content, manifest

    def _wait_for(self, digest: str, what: str, must: bool, vouched: bool) -> None:
        """Raises until the wait is over."""
        now_s = self._clock.monotonic_s()
        if len(self._withheld) >= _WITHHELD_MAX:
            self._withheld.clear()
        since_s = self._withheld.setdefault(digest, now_s)
        if not must and now_s - since_s >= WITHHELD_S:
            return
        remedy = "`holdfast hub check` names contents that are missing"
        if vouched:
            remedy += f"; a new token starts later: holdfast node invite {self._node} --replace"
        raise TryLater(f"the hub did not hand out {what}", remedy=remedy, code="content_missing")

    async def fetch(self, digest: str) -> bytes | None:
        found = await self._link.blob(digest)
        if found is not None and canonical.digest(found) != digest:
            raise Corrupt(
                f"the hub handed out something else than the content {digest[:12]}…",
                remedy="restore the hub's ledger that has the revision this node knows: holdfast import ledger",
                code="revision_refused",
            )
        return found


def _after_vouched(steps: Sequence[Step]) -> Sequence[Step]:
    """Revisions before the one that the inviting operator named are covered by it."""
    first = next((place for place, step in enumerate(steps) if step.vouched), 0)
    return steps[first:]


@contextmanager
def _understood() -> Iterator[None]:
    try:
        yield
    except msgspec.DecodeError as trouble:
        raise Corrupt(
            f"a content of this revision is not understood: {trouble}",
            remedy="upgrade the agent on this node to the release that the fleet is applied with",
            code="content_newer",
        ) from trouble


class Held(dict[str, bytes]):
    """Contents just fetched, and stored ones, which are read only when a rule needs them."""

    def __init__(self, acceptance: Acceptance, fetched: dict[str, bytes]) -> None:
        super().__init__(fetched)
        self._acceptance = acceptance

    def __missing__(self, digest: str) -> bytes:
        found = self._acceptance.blob(digest)
        if found is None:
            raise KeyError(digest)
        self[digest] = found
        return found
