"""A hub behind a URL. Believes no answer that a digest can prove wrong, and waits for none for ever."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from holdfast.adapters.hub_link.exchange import Answer, Garbled, Line, connect, request
from holdfast.errors import Corrupt, HoldfastError, Invalid, Unreachable
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.hub_status import HubStatus
from holdfast.model.ids import TRUST
from holdfast.model.observation import NodeObservation
from holdfast.model.record import Link, RevisionRecord
from holdfast.model.revision import Candidate, Head, decode_header, decode_table
from holdfast.model.trust import Trust
from holdfast.wire import codec, faults, messages

T = TypeVar("T")

TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
RECORDS_MAX = 1_000
HEADS_MAX = 10_000_000  # one a minute for nineteen years
_URL = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::([0-9]{1,5}))?/?"
)
_LOOPBACK = re.compile(r"127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|\[::1\]|localhost")
_PORT = {"http": 80, "https": 443}


UNKNOWN = (
    "holdfast history shows whether it arrived; repeating it is safe: a revision is never committed twice; "
    "else check --hub, and that the hub runs there"
)


class Contents(Mapping[str, bytes]):
    """Contents by digest, fetched when asked for; `known` are those the applied revision itself names."""

    def __init__(self, hub: HttpHub, known: Sequence[str]) -> None:
        self._hub = hub
        self._known = known

    def __getitem__(self, digest: str) -> bytes:
        found = self._hub.blob(digest)
        if found is None:
            raise KeyError(digest)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class HttpHub:
    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        parsed = _URL.fullmatch(url)
        port = int(parsed[3] or _PORT[parsed[1]]) if parsed else 0
        if parsed is None or not 0 < port < 65536:
            raise Invalid(
                f"{url!r} is not the address of a hub", remedy='give a URL such as "https://hub.example:9555"'
            )
        self._tls = parsed[1] == "https"
        if not self._tls and not _LOOPBACK.fullmatch(parsed[2]):
            raise Invalid(
                f"{url} would be asked without encryption, and it is not on this machine",
                remedy="use https://, or forward a port: ssh -L 9555:127.0.0.1:9555 HOST, then http://127.0.0.1:9555",
                code="insecure_hub",
            )
        self._url = url
        self._authority = url.partition("://")[2].rstrip("/")
        self._host, self._port = parsed[2].strip("[]"), port
        self._timeout_s = timeout_s
        self._line: Line | None = None

    # ---- reading

    def applied(self) -> Applied | None:
        said = self._get("/v1/applied", messages.AppliedAnswer).revision
        if said is None:
            return None
        try:
            return self._believed(said)
        except UnicodeDecodeError as trouble:
            raise _lie("what should be text is not") from trouble

    def _believed(self, said: messages.AppliedRevision) -> Applied:
        header = decode_header(_proven(said.header, said.head.digest, "the header"))
        if header.number != said.head.number:
            raise _lie(f"the head is number {said.head.number}, its header says {header.number}")
        table = decode_table(_proven(said.table, header.resources, "the resource table"))
        if TRUST not in table.entries or table.entries[TRUST].digest != header.trust:
            raise _lie("the table and the header name different trusts")
        trust = canonical.decode(_proven(said.trust, header.trust, "the trust"), Trust, "the trust")
        named = {header.resources, *header.manifests.values(), *(e.digest for e in table.entries.values())}
        return Applied(said.head, header, table, trust, Contents(self, sorted(named)))

    def records(self, newest: int, limit: int) -> list[RevisionRecord]:
        limit = min(limit, RECORDS_MAX)
        found: list[RevisionRecord] = []
        while len(found) < limit:
            ask = f"/v1/history?newest={max(newest, 0)}&limit={min(limit - len(found), messages.PAGE_RECORDS)}"
            page = self._get(ask, messages.HistoryPage).revisions
            found += page
            if not page or page[-1].number <= 1:
                break
            newest = page[-1].number - 1
        return found

    def links(self, first: int, last: int) -> list[Link]:
        if last > HEADS_MAX:  # the number of a head is the hub's word until its chain was walked
            raise _lie(f"nobody signs {last:,} revisions")
        first = max(first, 1)
        found: list[Link] = []
        while (at := first + len(found)) <= last:
            ask = f"/v1/links?first={at}&last={min(last, at + messages.PAGE_LINKS - 1)}"
            page = self._get(ask, messages.LinksPage).links
            if not page:
                raise _lie(f"it gives no revision {at}, and does not say why")
            found += page
        return found[: max(last - first + 1, 0)]

    def blob(self, digest: str) -> bytes | None:
        answer = self._ask("GET", f"/v1/blobs/{digest}", None)
        if answer.status == 404:
            return None
        return _proven(self._checked(answer).body, digest, "the content")

    def observations(self) -> dict[str, NodeObservation]:
        return self._get("/v1/observations", messages.ObservationsAnswer).nodes

    def damaged(self) -> list[str]:
        return list(self._get("/v1/damaged", messages.DamagedAnswer).digests)

    def status(self) -> HubStatus:
        return messages.status_of(self._get("/v1/status", messages.StatusAnswer))

    # ---- writing

    def commit(self, candidate: Candidate) -> Head:
        return self._post("/v1/revisions", messages.commit_request(candidate), messages.HeadAnswer).head

    def mend(self, blobs: Mapping[str, bytes]) -> int:
        return self._post("/v1/blobs", messages.MendRequest(dict(blobs)), messages.MendAnswer).mended

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    # ---- asking

    def _get(self, target: str, kind: type[T]) -> T:
        return self._message(self._ask("GET", target, None), kind)

    def _post(self, target: str, message: object, kind: type[T]) -> T:
        self.close()  # on a connection of its own: one that had gone stale would leave open whether it was heard
        return self._message(self._ask("POST", target, codec.write(message)), kind)

    def _message(self, answer: Answer, kind: type[T]) -> T:
        try:
            return codec.read(self._checked(answer).body, kind)
        except Invalid as trouble:
            if answer.status != 200:
                raise
            raise self._unreachable(f"its answer makes no sense: {trouble.message}") from trouble

    def _checked(self, answer: Answer) -> Answer:
        if answer.status == 200:
            return answer
        raise self._trouble(answer)

    def _trouble(self, answer: Answer) -> HoldfastError:
        if 300 <= answer.status < 400:
            return self._unreachable("it points to another address, and redirects are not followed")
        try:
            said = codec.read(answer.body, faults.Fault)
        except Invalid:
            return self._unreachable(f"it answers {answer.status} in words that are not a hub's")
        return faults.trouble(said, answer.status, answer.headers.get(faults.EXIT_HEADER.lower(), ""))

    def _ask(self, method: str, target: str, body: bytes | None) -> Answer:
        deadline_s = time.monotonic() + self._timeout_s
        text = request(method, target, self._authority, body)
        kept = self._line
        try:
            if kept is not None:
                try:
                    return self._through(kept, text, deadline_s)
                except ConnectionError:
                    self.close()  # closed while idle; ask once more on a fresh one
            return self._through(connect(self._host, self._port, self._tls, self._timeout_s), text, deadline_s)
        except (OSError, Garbled) as trouble:
            self.close()
            raise self._unreachable(_reason(trouble), UNKNOWN if body is not None else "") from trouble

    def _through(self, line: Line, text: bytes, deadline_s: float) -> Answer:
        self._line = line
        answer = line.ask(text, ANSWER_BYTES_MAX, deadline_s)
        if not line.reusable:
            self.close()
        return answer

    def _unreachable(self, why: str, remedy: str = "") -> Unreachable:
        return Unreachable(
            f"the hub at {self._url} did not answer as a hub does: {why}",
            remedy=remedy or "check --hub, and that the hub runs there: holdfast hub run; then try again",
            code="unreachable",
        )


def _reason(trouble: Exception) -> str:
    if isinstance(trouble, TimeoutError):
        return "it took too long"
    return str(getattr(trouble, "strerror", "") or trouble)


def _proven(content: bytes, digest: str, what: str) -> bytes:
    if canonical.digest(content) != digest:
        raise _lie(f"{what} does not match its digest {digest[:12]}…")
    return content


def _lie(why: str) -> Corrupt:
    return Corrupt(
        f"the hub gives an answer that cannot be true: {why}",
        remedy="do not apply; look at the machine the hub runs on and restore its state directory from a backup",
        code="hub_lies",
    )
