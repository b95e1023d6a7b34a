"""A PostgreSQL server of Debian's package that runs as an unprivileged user, with an administrator who is no superuser.

It logs every statement, so that tests can look for passwords there."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.fleets.ports import free_port
from tests.fleets.waiting import wait_until

BIN = Path("/usr/lib/postgresql/15/bin")
UID = 65534
BOSS, ADMIN = "boss", "keeper"
BOSS_PASSWORD, ADMIN_PASSWORD = "boss-canary-5d1e77", "admin-canary-91ac02"


class PostgresServer:
    def __init__(self, home: Path) -> None:
        self.home, self.port = home, free_port()
        self.log = home / "log"
        self.certificate = home / "server.crt"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, *settings: str) -> None:
        if not (self.home / "data").exists():
            self._initialise()
        words = [f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
        words += ["log_statement=all", "ssl=on", *(f"ssl_{kind}_file=../server.{end}" for kind, end in _TLS), *settings]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [BIN / "postgres", "-D", self.home / "data", *(part for word in words for part in ("-c", word))],
                stdout=log, stderr=log, cwd="/", env=_ENV, user=UID, group=UID, extra_groups=[],
                start_new_session=True,
            )  # fmt: skip
        wait_until(self._is_up, "PostgreSQL answers")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
            self._process = None

    def rows(self, query: str, *values: object, database: str = "postgres") -> list[tuple[object, ...]]:
        """As the superuser, who is not the administrator of tests."""
        with self.connected(BOSS, BOSS_PASSWORD, database) as connection:
            found = connection.execute(query.encode(), values)
            return found.fetchall() if found.description else []

    def connected(self, user: str, password: str, database: str) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=user, password=password, dbname=database,
            autocommit=True, connect_timeout=30,
        )  # fmt: skip

    def _initialise(self) -> None:
        password = self.home / "password"
        password.write_text(BOSS_PASSWORD)
        subject = ["-subj", "/CN=db", "-addext", "subjectAltName=IP:127.0.0.1"]
        pair = ["-keyout", str(self.home / "server.key"), "-out", str(self.certificate)]
        _run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "10", *subject, *pair])
        for path in self.home.iterdir():
            os.chown(path, UID, UID)
        os.chown(self.home, UID, UID)
        asked = ["--auth=scram-sha-256", "--no-sync", "--locale=C", "--encoding=UTF8", f"--pwfile={password}"]
        _run([str(BIN / "initdb"), f"--pgdata={self.home / 'data'}", f"--username={BOSS}", *asked], uid=UID)

    def _is_up(self) -> bool:
        try:
            with self.connected(BOSS, BOSS_PASSWORD, "postgres") as connection:
                if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ADMIN]).fetchall():
                    made = f"CREATE ROLE {ADMIN} LOGIN CREATEROLE CREATEDB PASSWORD '{ADMIN_PASSWORD}'"
                    connection.execute("SET log_statement = none")
                    connection.execute(made.encode())
            return True
        except psycopg.OperationalError:
            return False


_ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
_TLS = (("cert", "crt"), ("key", "key"))


def _run(words: Sequence[str], uid: int = 0) -> None:
    subprocess.run(words, cwd="/", env=_ENV, user=uid, group=uid, extra_groups=[], capture_output=True, check=True)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Not below pytest's own directories: another user cannot reach them."""
    home = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir="/tmp"))
    server = PostgresServer(home)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home)


def visible(canary: str) -> list[str]:
    """Processes whose arguments or environment have it."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        for file in ("cmdline", "environ"):
            with suppress(OSError):
                if canary.encode() in Path(f"/proc/{pid}/{file}").read_bytes():
                    found.append(f"{pid}/{file}")
    return found
