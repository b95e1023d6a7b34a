"""Send signed requests to a hub behind a URL: connections, failures, time limits. Knows no route."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, TypeVar

from holdfast.adapters.hub_link.http.exchange import Answer, Garbled, Line, NotReached, connect, request
from holdfast.adapters.hub_link.http.visit import Visit
from holdfast.errors import HoldfastError, Invalid, Unreachable
from holdfast.wire import codec, faults

if TYPE_CHECKING:
    import socket

    from holdfast.ports.clock import Clock
    from holdfast.ports.random_source import RandomSource
    from holdfast.ports.sessions import Sessions

T = TypeVar("T")

TIMEOUT_S = 30.0
SWITCH_S = 60.0  # a hub holds the end that comes first for 45 s
ANSWER_BYTES_MAX = 64 * 1024 * 1024
_URL = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::([0-9]{1,5}))?/?"
)
_PORT = 443

REMEDY = "check --hub, and that the hub runs there: holdfast hub run; then try again"
UNKNOWN = (
    "`holdfast history` shows whether it arrived; repeating it is safe: a revision is never committed twice; "
    "else check --hub, and that the hub runs there"
)


class Asking:
    """`pin` is the hub's public line; without it the system's authorities prove the hub."""

    def __init__(
        self,
        url: str,
        sessions: Sessions,
        clock: Clock,
        random: RandomSource,
        *,
        pin: str = "",
        fleet: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        parsed = _URL.fullmatch(url)
        port = int(parsed[3] or _PORT) if parsed else 0
        if parsed is None or not 0 < port < 65536:
            raise Invalid(
                f"{url!r} is not the address of a hub", remedy='give a URL such as "https://hub.example:9555"'
            )
        if parsed[1] == "http":
            raise Invalid(
                f"{url} is without encryption; a hub accepts TLS only",
                remedy=f"use https{url.removeprefix('http')}",
                code="insecure_hub",
            )
        self._url = url
        self._authority = url.partition("://")[2].rstrip("/")
        self._host, self._port = parsed[2].strip("[]"), port
        self._pin = pin
        self._clock = clock
        self._timeout_s = timeout_s
        self._line: Line | None = None
        self._ahead: list[str] = []  # targets whose requests are sent on this line, and not answered yet
        self.visit = Visit(sessions, clock, random, fleet)

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        self._ahead = []

    # ---- asking

    def get(self, target: str, kind: type[T]) -> T:
        return self.message(self.ask("GET", target, None), kind)

    def post(self, target: str, message: object, kind: type[T]) -> T:
        if self._ahead or self._line is None or not self._line.is_fresh():
            self.close()  # on a new connection: a stale one would leave open whether the request arrived
        return self.message(self.ask("POST", target, codec.write(message)), kind)

    def message(self, answer: Answer, kind: type[T]) -> T:
        try:
            return codec.read(self.checked(answer).body, kind)
        except Invalid as trouble:
            if answer.status != 200:
                raise
            raise self._unreachable(f"its answer cannot be read: {trouble.message}") from trouble

    def checked(self, answer: Answer) -> Answer:
        if answer.status == 200:
            return answer
        raise self._trouble(answer)

    def _trouble(self, answer: Answer) -> HoldfastError:
        self.visit.check_clock(answer)
        if 300 <= answer.status < 400:
            return self._unreachable("it points to another address, and redirects are not followed")
        try:
            said = codec.read(answer.body, faults.Fault)
        except Invalid:
            return self._unreachable(f"it answers {answer.status} without a hub's error message")
        return faults.trouble(said, answer.status, answer.headers.get(faults.EXIT_HEADER.lower(), ""))

    def send_ahead(self, *targets: str) -> None:
        """Send these GET requests at once; `ask` reads their answers in this order. Until then the caller may work."""
        self.close()
        self.visit.prepare()
        deadline_s = time.monotonic() + self._timeout_s
        try:
            line = self._line = connect(self._host, self._port, self._pin, deadline_s, self._clock.now_s())
            sent = [self._written(line, "GET", target, None) for target in targets]
            line.send(b"".join(sent), deadline_s)
        except (OSError, Garbled) as trouble:
            self.close()
            raise self._failed(trouble) from trouble
        self._ahead = list(targets)

    def send_also(self, target: str) -> None:
        """One more behind those; if there are none any more, `ask` sends it."""
        if self._line is None or not self._ahead:
            return
        try:
            self._line.send(self._written(self._line, "GET", target, None), time.monotonic() + self._timeout_s)
        except (OSError, Garbled) as trouble:
            self.close()
            raise self._failed(trouble) from trouble
        self._ahead.append(target)

    def _answered_ahead(self) -> Answer | None:
        """None: ask again, alone. A refusal may say what to correct, and names the request it refuses."""
        line, self._ahead = self._line, self._ahead[1:]
        assert line is not None
        try:
            answer = line.receive(ANSWER_BYTES_MAX, time.monotonic() + self._timeout_s, is_last=not self._ahead)
        except ConnectionError:
            return None
        except (OSError, Garbled) as trouble:
            self.close()
            raise self._failed(trouble) from trouble
        except KeyboardInterrupt:
            self.close()
            raise
        if not line.reusable:
            self.close()
        return answer if answer.status == 200 else None

    def ask(self, method: str, target: str, body: bytes | None) -> Answer:
        if self._ahead:
            found = self._answered_ahead() if (method, target) == ("GET", self._ahead[0]) else None
            if found is not None:
                return found
            self.close()
        answer = self._once(method, target, body)
        if answer.status == 401 and self.visit.mended(answer):
            if body is not None:
                self.close()
            return self._once(method, target, body)
        return answer

    def _once(self, method: str, target: str, body: bytes | None) -> Answer:
        self.visit.prepare()  # before the time limit starts: a person may have to touch a key
        deadline_s = time.monotonic() + self._timeout_s
        try:
            if self._line is not None:
                try:
                    return self._through(self._line, method, target, body, deadline_s)
                except ConnectionError:
                    if body is not None:
                        raise  # it may have arrived
                    self.close()  # closed while idle; ask once more on a fresh one, with a nonce of its own
            line = connect(self._host, self._port, self._pin, deadline_s, self._clock.now_s())
            return self._through(line, method, target, body, deadline_s)
        except (OSError, Garbled) as trouble:
            self.close()
            raise self._failed(trouble, is_write=body is not None) from trouble

    # ---- a stream

    def switched(self, target: str, protocol: str) -> tuple[socket.socket, bytes]:
        """A connection that carries another protocol from now on, and its first bytes if some came already."""
        answer = self._switch(target, protocol)
        if isinstance(answer, Answer) and answer.status == 401 and self.visit.mended(answer):
            answer = self._switch(target, protocol)
        if isinstance(answer, Answer):
            raise self._trouble(answer)
        return answer

    def _switch(self, target: str, protocol: str) -> tuple[socket.socket, bytes] | Answer:
        self.visit.prepare()
        deadline_s = time.monotonic() + SWITCH_S
        line = None
        try:
            line = connect(self._host, self._port, self._pin, deadline_s, self._clock.now_s())
            headers = self.visit.signed(line.peer, "GET", target, None) | {"Connection": "Upgrade", "Upgrade": protocol}
            answer = line.switch(request("GET", target, self._authority, headers), ANSWER_BYTES_MAX, deadline_s)
        except (OSError, Garbled) as trouble:
            if line is not None:
                line.close()
            raise self._failed(trouble) from trouble
        if answer is None:
            return line.taken()
        line.close()
        return answer

    def _through(self, line: Line, method: str, target: str, body: bytes | None, deadline_s: float) -> Answer:
        self._line = line
        try:
            answer = line.ask(self._written(line, method, target, body), ANSWER_BYTES_MAX, deadline_s)
        except KeyboardInterrupt:
            self.close()  # the answer that is still to come must not be taken for that of the next request
            raise
        if not line.reusable:
            self.close()
        return answer

    def _written(self, line: Line, method: str, target: str, body: bytes | None) -> bytes:
        return request(method, target, self._authority, self.visit.signed(line.peer, method, target, body), body)

    def _failed(self, trouble: OSError | Garbled, is_write: bool = False) -> Unreachable:
        if isinstance(trouble, NotReached):
            return self._unreachable(str(trouble), said="cannot reach")
        why = "it took too long" if isinstance(trouble, TimeoutError) else getattr(trouble, "strerror", "") or trouble
        return self._unreachable(str(why), UNKNOWN if is_write else REMEDY)

    def _unreachable(self, why: str, remedy: str = REMEDY, said: str = "no valid answer from") -> Unreachable:
        return Unreachable(
            f"{said} the hub at {self._url}: {why}",
            remedy=remedy,
            code="unreachable",
        )
