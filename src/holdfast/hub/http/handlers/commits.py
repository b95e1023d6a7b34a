"""Writes to the ledger: commit a signed revision, store contents again that were damaged or missing."""

from collections.abc import Iterable
from typing import Protocol

from holdfast.hub.http import limits
from holdfast.hub.http.operation import FOUNDERS, OPERATORS, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import REFUSED, Route
from holdfast.model.applied import affected, manifests_of
from holdfast.ports.hub_link import HubLink
from holdfast.wire import codec, messages

COMMIT = Operation("commit", "submit a signed revision", OPERATORS | FOUNDERS)  # judged by the revision's signatures
MEND = Operation("mend", "store damaged or missing contents again", OPERATORS)


class Follower(Protocol):
    """Has to follow every commit. May be called from any thread."""

    def committed(self, nodes: Iterable[str] | None) -> None: ...


class Commits:
    def __init__(self, hub: HubLink, fleet: Follower) -> None:
        self._hub = hub
        self._fleet = fleet

    def commit(self, request: Request) -> bytes:
        candidate = messages.candidate_of(codec.read(request.body, messages.CommitRequest))
        before = manifests_of(self._hub.applied())
        head = self._hub.commit(candidate)
        self._fleet.committed(affected(before, manifests_of(self._hub.applied())))
        return codec.write(messages.HeadAnswer(head))

    def mend(self, request: Request) -> bytes:
        wanted = codec.read(request.body, messages.MendRequest)
        return codec.write(messages.MendAnswer(self._hub.mend(wanted.blobs)))


ROUTES = (
    Route(
        "POST",
        "/v1/revisions",
        COMMIT,
        "Commit a signed revision; answers when it is durable",
        Commits,
        Commits.commit,
        messages.HeadAnswer,
        messages.CommitRequest,
        cost="write",
        body_bytes_max=limits.LARGE_BODY_BYTES_MAX,
        refusals=REFUSED,
    ),
    Route(
        "POST",
        "/v1/blobs",
        MEND,
        "Store damaged or missing contents again",
        Commits,
        Commits.mend,
        messages.MendAnswer,
        messages.MendRequest,
        cost="write",
        body_bytes_max=limits.LARGE_BODY_BYTES_MAX,
        refusals=REFUSED,
    ),
)
