"""A client outside the fleet that asks an edge again and again, and knows when it first heard what it waited for.

It verifies no certificate: what is measured here is time, and a test elsewhere judges certificates.
"""

import json
import socket
import ssl
import threading
import time

WAIT_S = 60.0
PAUSE_S = 0.002  # two cores are shared with everything that is measured
HTTPS = 443
STILL_S = 0.2  # an answer takes no longer while its service runs


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _question(hostname: str) -> bytes:
    return f"GET / HTTP/1.1\r\nHost: {hostname}\r\n\r\n".encode()


def _answer(line: ssl.SSLSocket) -> tuple[int, bytes]:
    """Status and content. A server that hangs up in the midst of it is an OSError."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += _more(line)
    head, _, content = got.partition(b"\r\n\r\n")
    fields = dict(field.lower().split(b": ", 1) for field in head.split(b"\r\n")[1:])
    while len(content) < int(fields.get(b"content-length", b"0")):
        content += _more(line)
    return int(head.split(b" ", 2)[1]), content


def _more(line: ssl.SSLSocket) -> bytes:
    part = line.recv(65536)
    if not part:
        raise ConnectionResetError("the server hung up")
    return part


class Newcomer:
    """Dials under a name that is not served yet, until it is. `others` counts answers before it that were not 200."""

    def __init__(self, address: str, hostname: str) -> None:
        self._address, self._hostname = address, hostname
        self._context = _context()
        self.others: dict[int, int] = {}

    def served_s(self) -> float:
        give_up_s = time.monotonic() + WAIT_S
        while time.monotonic() < give_up_s:
            try:
                status = self._ask()
            except OSError:  # nobody has that name: the edge hangs up
                time.sleep(PAUSE_S)
                continue
            if status == 200:
                return time.time()
            self.others[status] = self.others.get(status, 0) + 1
        raise SystemExit(f"{self._hostname} was not served within {WAIT_S:.0f} s")

    def _ask(self) -> int:
        with socket.create_connection((self._address, HTTPS), 5.0) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._context.wrap_socket(plain, server_hostname=self._hostname) as line:
                line.sendall(_question(self._hostname))
                return _answer(line)[0]


class Regular(threading.Thread):
    """Asks all the time on one connection, and knows when it first heard of each change of the version."""

    def __init__(self, address: str, hostname: str) -> None:
        super().__init__(daemon=True)
        self._address, self._hostname = address, hostname
        self._over = threading.Event()
        self._heard = threading.Condition()
        self._version, self._since_s = "", 0.0
        self.trouble = ""

    def run(self) -> None:
        asked = _question(self._hostname)
        try:
            with socket.create_connection((self._address, HTTPS), 5.0) as plain:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with _context().wrap_socket(plain, server_hostname=self._hostname) as line:
                    while not self._over.wait(PAUSE_S):
                        line.sendall(asked)
                        status, content = _answer(line)
                        self._note(status, content)
        except OSError as trouble:
            self.trouble = str(trouble)

    def _note(self, status: int, content: bytes) -> None:
        if status != 200:
            self.trouble = f"status {status}"
            return
        version = str(json.loads(content)["version"])
        with self._heard:
            if version != self._version:
                self._version, self._since_s = version, time.time()
                self._heard.notify_all()

    def heard_s(self, version: str) -> float:
        with self._heard:
            if not self._heard.wait_for(lambda: self._version == version, WAIT_S):
                raise SystemExit(f"version {version} was never heard {self.trouble}")
            return self._since_s

    def __enter__(self) -> "Regular":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(WAIT_S)
        if self.trouble:
            raise SystemExit(f"a client that kept its connection had trouble: {self.trouble}")


class Watch:
    """Asks without a pause while a service is updated; `gap_s` is the longest time between two good answers."""

    def __init__(self, address: str, hostname: str) -> None:
        self._address, self._hostname = address, hostname
        self._context, self._over = _context(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._last_s, self.gap_s = time.monotonic(), 0.0

    def __enter__(self) -> "Watch":
        self._last_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *trouble: object) -> None:
        """After one more good answer: the gap may not have ended yet."""
        self._over.set()
        self._thread.join()

    @property
    def is_answered(self) -> bool:
        """The proxies may hold a request while its service is down."""
        return time.monotonic() - self._last_s < STILL_S

    def _run(self) -> None:
        give_up_s = float("inf")
        while time.monotonic() < give_up_s:
            is_last = self._over.is_set()
            give_up_s = min(give_up_s, time.monotonic() + WAIT_S) if is_last else give_up_s
            if self._is_good():
                now_s = time.monotonic()
                self.gap_s, self._last_s = max(self.gap_s, now_s - self._last_s), now_s
                if is_last:
                    return
            time.sleep(PAUSE_S)
        self.gap_s = WAIT_S

    def _is_good(self) -> bool:
        try:
            with (
                socket.create_connection((self._address, HTTPS), timeout=60.0) as plain,
                self._context.wrap_socket(plain, server_hostname=self._hostname) as line,
            ):
                line.sendall(_question(self._hostname))
                return _answer(line)[0] == 200
        except OSError:
            return False
