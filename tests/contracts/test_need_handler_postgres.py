"""Logins on a real PostgreSQL server, made by an administrator who is no superuser: killed anywhere, lied to."""

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec
import psycopg
import pytest

from holdfast.adapters.need_handler.postgres import COMMAND, PostgresHandler, _work
from holdfast.adapters.process.process import with_argument
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.errors import HoldfastError
from holdfast.model.need import Grantee
from holdfast.ports.need_handler import Refused, Setting, Silent
from tests.fleets.ports import free_port
from tests.fleets.postgres_server import (
    ADMIN,
    ADMIN_PASSWORD,
    BOSS,
    BOSS_PASSWORD,
    PostgresServer,
    postgres_server,
    visible,
)
from tests.fleets.waiting import wait_until

# Messages that the process sends to the server in a grant without TLS: those that change something, the end of the
# session, and one more than there are. A grant has three to connect, a revocation too.
KILLS = (5, 7, 9, 11, 13, 14, 15, 16, 17, 18)
AT_ONCE = 4


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def by(server: PostgresServer) -> Setting:
    return Setting({"address": server.address, "user": ADMIN}, ADMIN_PASSWORD.encode())


@pytest.fixture
def handler() -> PostgresHandler:
    return PostgresHandler(SystemRandom())


def grantee(service: str, node: str = "w1", generation: int = 1) -> Grantee:
    return Grantee("fleet", service, "db", node, generation)


def counts(server: PostgresServer, to: Grantee) -> tuple[int, int, int]:
    """Roles of the login, roles of the resource, databases."""
    asked = (
        "SELECT (SELECT count(*) FROM pg_roles WHERE rolname = %s), (SELECT count(*) FROM pg_roles WHERE rolname = %s),"
    )
    asked += " (SELECT count(*) FROM pg_database WHERE datname = %s)"
    logins, groups, databases = server.rows(asked, to.login, to.resource, to.resource)[0]
    return int(str(logins)), int(str(groups)), int(str(databases))


def works(server: PostgresServer, values: dict[str, str]) -> bool:
    try:
        with server.connected(values["user"], values["password"], values["database"]) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS probe (at timestamptz)")
            connection.execute("INSERT INTO probe VALUES (now())")
        return True
    except psycopg.Error:
        return False


# ---- data


def test_a_later_login_of_another_node_owns_the_same_tables(
    server: PostgresServer, by: Setting, handler: PostgresHandler
) -> None:
    old, new = grantee("shop", "w1", 1), grantee("shop", "w2", 2)

    async def story() -> None:
        first = await handler.grant(old, by)
        with server.connected(first["user"], first["password"], first["database"]) as one:
            one.execute("CREATE TABLE cart (n int)")
            one.execute("INSERT INTO cart VALUES (7)")
            one.execute("SET ROLE NONE")
            one.execute("CREATE TABLE own (n int)")  # belongs to the login, until it is revoked
            one.execute("GRANT CONNECT ON DATABASE " + first["database"] + " TO " + first["user"])
            one.execute(
                "CREATE SCHEMA evil; "
                "CREATE FUNCTION evil.pg_terminate_backend(int) RETURNS bool LANGUAGE sql AS 'SELECT 1/0 = 1'"
            )
            for setting in ("search_path = evil", "default_transaction_read_only = on", "role = none"):
                one.execute(f"ALTER DATABASE {first['database']} SET {setting}")
        second = await handler.grant(new, by)
        owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'cart'"
        assert server.rows(owner, database=new.resource) == [(new.resource,)]
        await handler.revoke(old, by)
        assert counts(server, old) == (0, 1, 1) and counts(server, new) == (1, 1, 1)
        with server.connected(second["user"], second["password"], second["database"]) as two:
            two.execute(f"SET search_path TO public; SET default_transaction_read_only TO off; SET ROLE {new.resource}")
            assert two.execute("SELECT n FROM cart").fetchall() == [(7,)]
            for table in ("cart", "own"):
                two.execute(f"INSERT INTO {table} VALUES (8)")
                two.execute(f"ALTER TABLE {table} ADD COLUMN more text")
        owners = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'"
        assert server.rows(owners, database=new.resource) == [(new.resource,)]

    asyncio.run(story())


def test_disabling_ends_what_is_open_and_a_login_reaches_no_other_database(
    server: PostgresServer, by: Setting, handler: PostgresHandler
) -> None:
    async def story() -> None:
        values = await handler.grant(grantee("open"), by)
        await handler.grant(grantee("neighbour"), by)
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            server.connected(values["user"], values["password"], grantee("neighbour").resource)
        with server.connected(values["user"], values["password"], values["database"]) as one:
            assert one.execute(
                "SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = session_user"
            ).fetchall() == [(False,)]
            one.execute("BEGIN")
            await handler.disable(grantee("open"), by)
            with pytest.raises(psycopg.OperationalError):
                one.execute("SELECT 1")
        await handler.enable(grantee("open"), by)
        assert works(server, dict(values))

    asyncio.run(story())


# ---- killed


def killed_at(number: int) -> PostgresHandler:
    """The process is killed instead of sending its message of this number."""
    inject = f"inject=sendto:signal=SIGKILL:when={number}"
    return PostgresHandler(
        SystemRandom(), ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=sendto", "-e", inject, *COMMAND)
    )


def test_a_process_that_is_killed_between_any_two_statements_leaves_nothing_double(
    server: PostgresServer, by: Setting, handler: PostgresHandler
) -> None:
    by = Setting({**by.params, "tls": "off"}, by.secret)
    room = asyncio.Semaphore(AT_ONCE)
    cut: list[int] = []

    async def one(number: int) -> None:
        to = grantee(f"killed{number}")
        async with room:
            try:
                await killed_at(number).grant(to, by)
            except Silent:
                cut.append(number)
            values = await handler.grant(to, by)
            assert counts(server, to) == (1, 1, 1) and works(server, dict(values)), number
            with suppress(Silent):
                await killed_at(number).revoke(to, by)
            await handler.revoke(to, by)
            assert counts(server, to) == (0, 1, 1) and not works(server, dict(values)), number

    async def story() -> None:
        await asyncio.gather(*map(one, KILLS))

    asyncio.run(story())
    assert sorted(cut) == list(KILLS[:-1]), "a grant has 17 messages"


def test_a_database_that_a_killed_process_left_to_the_server_is_taken_over(
    server: PostgresServer, by: Setting, handler: PostgresHandler
) -> None:
    """The server goes on after its client died. While it waits here, other users look for the passwords."""
    to = grantee("halfway")

    async def story() -> None:
        with server.connected(BOSS, BOSS_PASSWORD, "postgres") as held:
            held.execute("BEGIN")
            held.execute("LOCK TABLE pg_database IN SHARE MODE")
            first = asyncio.create_task(handler.grant(to, by))
            await asyncio.to_thread(wait_until, lambda: waiting(server), "CREATE DATABASE waits")
            assert visible(ADMIN_PASSWORD) == []
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            assert counts(server, to) == (0, 1, 0)
            held.execute("ROLLBACK")
        await asyncio.to_thread(wait_until, lambda: not waiting(server), "the server is done")
        values = await handler.grant(to, by)
        assert counts(server, to) == (1, 1, 1) and works(server, dict(values))
        log = server.log.read_bytes()
        assert b"CREATE DATABASE" in log
        assert values["password"].encode() not in log and ADMIN_PASSWORD.encode() not in log

    asyncio.run(story())


def waiting(server: PostgresServer) -> bool:
    asked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE DATABASE%%'"
    return bool(server.rows(asked))


AGENT = """
import asyncio, sys
from holdfast.adapters.need_handler.postgres import COMMAND, PostgresHandler
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.model.need import Grantee
from holdfast.ports.need_handler import Setting
async def main():
    verb, address, user, mark = sys.argv[1:]
    by = Setting({"address": address, "user": user}, sys.stdin.readline().encode())
    handler, to = PostgresHandler(SystemRandom(), (*COMMAND, mark)), Grantee("fleet", "agent", "db", "w1", 1)
    if verb == "grant":
        await handler.grant(to, by)
    print(await handler.check(to, by, {"user": "a", "password": "b" * 20, "database": "c"}))
    print(any(name.startswith("psycopg") for name in sys.modules))
asyncio.run(main())
"""


def agent(server: PostgresServer, verb: str, mark: str) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", AGENT, verb, server.address, ADMIN, mark]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(ADMIN_PASSWORD)
    process.stdin.close()
    return process


def test_no_driver_is_in_the_process_of_the_agent(server: PostgresServer) -> None:
    with agent(server, "check", f"mark-{uuid4().hex}") as process:
        assert process.stdout is not None and process.stdout.read() == "refused\nFalse\n"


def test_the_process_ends_with_its_agent_and_does_nothing_without_one(server: PostgresServer, by: Setting) -> None:
    mark = f"mark-{uuid4().hex}"
    with server.connected(BOSS, BOSS_PASSWORD, "postgres") as held:
        held.execute("BEGIN")
        held.execute("LOCK TABLE pg_database IN SHARE MODE")
        with agent(server, "grant", mark) as process:
            wait_until(lambda: waiting(server), "CREATE DATABASE waits")
            (child,) = (one.pid for one in with_argument(mark) if one.pid != process.pid)
            assert Path(f"/proc/{child}/environ").read_bytes() == b""
            process.kill()
        wait_until(lambda: with_argument(mark) == [], "it is gone")
        held.execute("ROLLBACK")
    late = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={})
    assert late.stdin is not None and late.stdout is not None
    late.stdout.close()
    late.stdin.write(msgspec.json.encode(_work("grant", grantee("orphan"), by, "x" * 20)))
    late.stdin.close()
    assert late.wait(60) != 0 and counts(server, grantee("orphan")) == (0, 0, 0)


# ---- parameters


@pytest.mark.parametrize(
    "params",
    [
        {"address": ""},
        {"address": "/tmp:5432"},
        {"address": "@abstract:5432"},
        {"address": "a,b:5432"},
        {"address": "127.0.0.1"},
        {"address": "127.0.0.1:0"},
        {"address": "127.0.0.1:99999"},
        {"address": "127.0.0.1:5432 host=evil"},
        {"user": ""},
        {"user": "a\0b"},
        {"user": "x" * 64},
        {"database": "a\nb"},
        {"tls": "prefer"},
        {"ca": "relative.pem"},
        {"tls": "off", "ca": "/etc/ssl/ca.pem"},
    ],
    ids=str,
)
def test_a_parameter_of_another_form_starts_no_process(params: dict[str, str]) -> None:
    by = Setting({"address": "127.0.0.1:1", "user": "a", **params}, b"secret-canary-6f")
    with pytest.raises(Refused) as refused:
        asyncio.run(PostgresHandler(SystemRandom(), ("/nonexistent",)).grant(grantee("web"), by))
    assert "secret-canary-6f" not in str(refused.value.args)


def test_parameters_are_values_and_no_settings_of_the_connection(server: PostgresServer, by: Setting) -> None:
    """In libpq's own text of a connection, a blank would begin another setting."""
    handler = PostgresHandler(SystemRandom())
    for name in ("user", "database"):
        hostile = Setting({**by.params, name: "postgres' host=/tmp sslmode='disable"}, by.secret)
        with pytest.raises(Refused, match=r"failed|does not exist"):
            asyncio.run(handler.grant(grantee("web"), hostile))


# ---- lies


class Impostor:
    """Accepts connections and gives each to a function."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.port = free_port()
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._serve = serve
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        self._listener.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._safely, args=[connection], daemon=True).start()

    def _safely(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(20)
            self._serve(connection)


def without_answer(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def without_tls(connection: socket.socket) -> None:
    connection.recv(8)
    connection.sendall(b"N")
    without_answer(connection)


def test_a_server_that_asks_for_the_password_itself_does_not_get_it() -> None:
    heard: list[bytes] = []

    def asks(connection: socket.socket) -> None:
        heard.append(connection.recv(4096))
        connection.sendall(b"R\0\0\0\x08\0\0\0\x03")  # in clear text
        while more := connection.recv(4096):
            heard.append(more)

    impostor = Impostor(asks)
    by = Setting({"address": impostor.address, "user": "a", "tls": "off"}, b"secret-canary-6f")
    with pytest.raises(Refused, match="authentication method"):
        asyncio.run(PostgresHandler(SystemRandom()).grant(grantee("web"), by))
    impostor.close()
    assert heard and b"secret-canary-6f" not in b"".join(heard)


def test_another_end_of_the_tls_connection_is_noticed(server: PostgresServer, by: Setting) -> None:
    """It passes everything on, with a certificate of its own: no session comes of it, and no verdict."""

    def between(connection: socket.socket) -> None:
        connection.recv(8)
        connection.sendall(b"S")
        outside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        outside.load_cert_chain(own, own)
        inside = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        inside.check_hostname, inside.verify_mode = False, ssl.CERT_NONE
        client = outside.wrap_socket(connection, server_side=True)
        to_server = socket.create_connection(("127.0.0.1", server.port))
        to_server.sendall(b"\0\0\0\x08\x04\xd2\x16\x2f")
        to_server.recv(1)
        real = inside.wrap_socket(to_server)
        passed.append(1)
        threading.Thread(target=pump, args=[real, client], daemon=True).start()
        pump(client, real)

    def pump(source: ssl.SSLSocket, sink: ssl.SSLSocket) -> None:
        with suppress(OSError):
            while more := source.recv(4096):
                sink.sendall(more)
        with suppress(OSError):
            sink.close()

    passed: list[int] = []
    own = server.home / "other.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=db"]
    subprocess.run([*made, "-keyout", own, "-out", f"{own}.crt"], capture_output=True, check=True)
    own.write_bytes(own.read_bytes() + Path(f"{own}.crt").read_bytes())
    impostor = Impostor(between)
    lied = Setting({**by.params, "address": impostor.address}, by.secret)
    handler, to = PostgresHandler(SystemRandom()), grantee("bound")

    async def story() -> None:
        values = await handler.grant(to, by)
        with pytest.raises(Refused, match="channel binding"):
            await handler.grant(to, lied)
        assert await handler.check(to, lied, values) == "unknown"
        await handler.revoke(to, by)
        assert await handler.check(to, lied, values) == "unknown", "refused, but not by the server"
        assert await handler.check(to, by, values) == "refused"

    asyncio.run(story())
    impostor.close()
    assert len(passed) >= 3


def test_an_authority_is_checked_if_it_is_named_and_tls_is_not_left_out(server: PostgresServer, by: Setting) -> None:
    handler, other = PostgresHandler(SystemRandom()), server.home / "other-ca.pem"
    server.home.chmod(0o755)
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]
    subprocess.run([*made, "-keyout", "/dev/null", "-out", other], capture_output=True, check=True)
    for path in (server.certificate, other):
        path.chmod(0o644)

    def grant(**params: str) -> HoldfastError | None:
        try:
            asyncio.run(handler.grant(grantee("tls"), Setting({**by.params, **params}, by.secret)))
            return None
        except HoldfastError as trouble:
            return trouble

    assert grant(ca=str(server.certificate)) is None
    assert "certificate verify failed" in str(grant(ca=str(other)))
    plain = Impostor(without_tls)
    refused = grant(address=plain.address)
    plain.close()
    assert isinstance(refused, Refused) and "does not support SSL" in refused.message


def test_a_server_that_never_answers_is_silent_at_its_deadline(by: Setting) -> None:
    quiet = Impostor(without_answer)
    mark = f"mark-{uuid4().hex}"
    slow = Setting({**by.params, "address": quiet.address}, by.secret)
    with pytest.raises(Silent, match="deadline"):
        asyncio.run(PostgresHandler(SystemRandom(), (*COMMAND, mark), within_s=2.0).grant(grantee("web"), slow))
    assert with_argument(mark) == []
    quiet.close()
