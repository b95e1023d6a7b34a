"""A real public authority for tests: caddy's `acme_server`, with a DNS server of its own that knows where names lead.

Everything is a parameter, so that it also runs inside a lab: where it listens, how its processes are begun (through
`ip netns exec` for one), and where it looks names up. It ends with what it began.
"""

import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

from holdfast.model.fleet import Acme
from tests.fleets.ports import free_port

CADDY = Path(sys.executable).parent / "caddy"
CHALLENGES = "/.well-known/acme-challenge/"
FORBIDDEN = "forbidden.example.test"  # it signs for any other name
START_S = 120.0


# Its `resolvers` are for DNS-01 alone; for HTTP-01 it looks names up as the machine does. So it gets a resolv.conf of
# its own, in a mount namespace of its own: the machine's stays as it is.
_BEGIN = 'mount --bind resolv.conf /etc/resolv.conf && exec "$0" run --adapter caddyfile --config Caddyfile'


class Names:
    """A DNS server that knows A records and nothing else; `known` may be changed while it runs."""

    def __init__(self, known: Mapping[str, str], address: str, port: int = 53) -> None:
        self.known = dict(known)
        self.asked: list[str] = []
        names = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                question, door = self.request
                with suppress(Exception):
                    door.sendto(names.answer(question), self.client_address)

        self._server = socketserver.ThreadingUDPServer((address, port), Handler)
        self.address = address
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "Names":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, question: bytes) -> bytes:
        asked = dns.message.from_wire(question)
        reply = dns.message.make_response(asked)
        reply.flags |= dns.flags.AA | dns.flags.RA
        one = asked.question[0]
        name = one.name.to_text(omit_final_dot=True).lower()
        self.asked = [*self.asked, name][-1000:]
        if name not in self.known:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        elif one.rdtype == dns.rdatatype.A:
            reply.answer.append(dns.rrset.from_text(one.name, 0, "IN", "A", self.known[name]))
        return bytes(reply.to_wire())


class Challenges:
    """Port 80 of an edge: answers tokens and nothing else. Give `answer` to whoever orders."""

    def __init__(self, address: str, port: int = 80) -> None:
        self.tokens: dict[str, str] = {}
        self.history: list[dict[str, str]] = []  # what `answer` was told, in order
        self.fetched: list[str] = []
        here = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                here.fetched.append(self.path)
                found = here.tokens.get(self.path.removeprefix(CHALLENGES))
                self.send_response(200 if found else 404)
                self.end_headers()
                self.wfile.write((found or "").encode())

            def log_message(self, *_: object) -> None:
                """Tests read `fetched`."""

        self._server = ThreadingHTTPServer((address, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "Challenges":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    async def answer(self, tokens: Mapping[str, str]) -> None:
        self.history.append(dict(tokens))
        self.tokens = dict(tokens)


class PublicCa:
    """Caddy as an authority. Its files stay in `folder`, so a second one there is the same authority again."""

    def __init__(
        self,
        folder: Path,
        resolver: str,
        address: str = "127.0.0.1",
        port: int = 0,
        lifetime: str = "2160h",
        through: Sequence[str] = (),
    ) -> None:
        """`resolver` is the address of a DNS server; `through` begins a command elsewhere: ip netns exec NAME."""
        self._folder = folder
        self._address = address
        self._port = port or free_port(address)
        self._resolver = resolver  # its port is 53: resolv.conf knows no other
        self._lifetime = lifetime
        self._through = tuple(through)
        self._process: subprocess.Popen[bytes] | None = None
        self.directory = f"https://{address}:{self._port}/acme/local/directory"

    def __enter__(self) -> "PublicCa":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def root(self) -> str:
        """PEM of its own root: what goes into `ca` of [acme], and what clients believe."""
        return (self._folder / "data" / "pki" / "authorities" / "local" / "root.crt").read_text()

    @property
    def settings(self) -> Acme:
        return Acme(self.directory, ("ops@example.test",), True, self.root)

    @property
    def log(self) -> str:
        return (self._folder / "caddy.log").read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None, "it runs"
        return self._process.pid

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "Caddyfile").write_text(self._caddyfile())
        (self._folder / "resolv.conf").write_text(f"nameserver {self._resolver}\noptions timeout:1 attempts:2\n")
        home = {"HOME": str(self._folder), "XDG_DATA_HOME": str(self._folder), "XDG_CONFIG_HOME": str(self._folder)}
        home["GODEBUG"] = "netdns=go"
        with (self._folder / "caddy.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._through, "unshare", "--mount", "sh", "-c", _BEGIN, str(CADDY)],
                cwd=self._folder,
                env={**os.environ, **home},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait()

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, how)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)
        self._process = None

    def _caddyfile(self) -> str:
        return f"""{{
            admin off
            persist_config off
            skip_install_trust
            auto_https disable_redirects
            default_sni {self._address}
            storage file_system {self._folder}/data
            pki {{
                ca local {{
                    intermediate_lifetime 8000h
                }}
            }}
        }}
        https://{self._address}:{self._port} {{
            bind {self._address}
            tls internal
            acme_server {{
                lifetime {self._lifetime}
                challenges http-01
                deny {{
                    domains {FORBIDDEN}
                }}
            }}
        }}
        """

    def _wait(self) -> None:
        """Until it answers over TLS: asked by curl, through whatever it was begun through."""
        asked = [*self._through, "curl", "--silent", "--fail", "--insecure", "--max-time", "2", "--output", "/dev/null"]
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            assert self._process is not None and self._process.poll() is None, self.log[-3000:]
            if subprocess.run([*asked, self.directory], stdin=subprocess.DEVNULL, check=False).returncode == 0:
                return
            time.sleep(0.05)
        self.stop(signal.SIGKILL)
        raise AssertionError(f"caddy does not answer: {self.log[-3000:]}")
