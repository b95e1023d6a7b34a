"""The process that speaks with a PostgreSQL server: `python -I -B -m` this module, one `Work` on its input.

It alone has the administrator's password. The server never gets a password: libpq answers nothing but SCRAM, and a
login is made with the verifier of its password. Every verb may be killed between two statements and repeated: what can
be in one transaction is, and what cannot (CREATE DATABASE) is looked for first.

A resource is a role that cannot log in and the database that it owns. Every login is a member of that role and acts as
it, so that tables belong to the resource and not to a login.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping

import msgspec
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.pq import abc

from holdfast.adapters.need_handler.work import Action, Done, Work

LIVES_S = 40  # longer than the agent waits for it
CONNECT_S = 8.0
QUIET_S, ENDED_S = 0.1, 8.0
WORK_BYTES_MAX = 64 * 1024
UNPRIVILEGED = 65534

# An owner of a database can give it settings of its own: none of them takes effect in the administrator's session.
# A statement may take longer than this process lives: then the next run finds what it made.
_SESSION = "-c search_path=pg_catalog -c role=none -c default_transaction_read_only=off"
_BOUNDS = "-c statement_timeout=120s -c lock_timeout=10s -c idle_in_transaction_session_timeout=30s"
_SILENT_CLASSES = ("08", "23", "25", "40", "53", "55", "57", "58", "XX")  # busy, full, stopping, a standby
_SILENT_STATES = ("42710", "42P04")  # made at the same time: what a killed run had begun
_DEMANDS = ("not support SSL", "certificate", "channel binding", "authentication method")  # in libpq's words
_DEATH_SIGNAL, _DUMPABLE, _NO_NEW_PRIVILEGES = 1, 4, 38  # numbers of prctl


class Trouble(Exception):
    def __init__(self, why: str, *, is_silent: bool, state: str = "") -> None:
        super().__init__(why)
        self.why, self.is_silent, self.state = why, is_silent, state


class Server:
    """One session. Errors of the server become `Trouble`."""

    def __init__(self, connection: abc.PGconn) -> None:
        self._connection = connection
        self._escaping = pq.Escaping(connection)

    def name(self, name: str) -> str:
        return self._escaping.escape_identifier(name.encode()).decode()

    def rows(self, query: str, *values: str) -> list[str]:
        """The first column."""
        result = self._good(self._connection.exec_params(query.encode(), [value.encode() for value in values]))
        return [(result.get_value(number, 0) or b"").decode() for number in range(result.ntuples)]

    def do(self, *statements: str) -> None:
        for statement in statements:
            self._good(self._connection.exec_(statement.encode()))

    def verifier(self, login: str, password: str) -> str:
        """What the server keeps instead of the password, as a literal."""
        made = self._connection.encrypt_password(password.encode(), login.encode(), b"scram-sha-256")
        return self._escaping.escape_literal(made).decode()

    def close(self) -> None:
        self._connection.finish()

    def _good(self, result: abc.PGresult) -> abc.PGresult:
        if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            return result
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        said = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"the connection was lost"
        raise Trouble(_words(said), is_silent=_is_silent(state), state=state)


# ---- verbs


def grant(server: Server, work: Work) -> Done:
    group, login = server.name(work.resource), server.name(work.login)
    if not _has_role(server, work.resource):
        server.do(f"CREATE ROLE {group} NOLOGIN")
    _join(server, work.resource)
    owners = server.rows("SELECT datdba::regrole::text FROM pg_database WHERE datname = $1", work.resource)
    if not owners:
        server.do(f"CREATE DATABASE {group} OWNER {group} TEMPLATE template0 ENCODING 'UTF8'")
    elif owners != [work.resource]:
        raise Trouble("its database exists and belongs to another role", is_silent=False)
    verb = "ALTER" if _has_role(server, work.login) else "CREATE"
    server.do(
        f"REVOKE ALL ON DATABASE {group} FROM PUBLIC",
        "BEGIN",
        f"{verb} ROLE {login} LOGIN INHERIT PASSWORD {server.verifier(work.login, work.password)}",
        f"GRANT {group} TO {login}",
        f"ALTER ROLE {login} SET role = {group}",
        "COMMIT",
    )
    return Done()


def revoke(server: Server, work: Work) -> Done:
    if not _has_role(server, work.login):
        return Done()
    disable(server, work)
    login, group = server.name(work.login), server.name(work.resource)
    for database in _left_in(server, work):
        with_all = _connected(work, work.user, work.secret, database)
        with_all.do("BEGIN", f"REASSIGN OWNED BY {login} TO {group}", f"DROP OWNED BY {login}", "COMMIT")
        with_all.close()
    server.do(f"DROP ROLE {login}")
    return Done()


def disable(server: Server, work: Work) -> Done:
    if _has_role(server, work.login):
        _join(server, work.login)  # its connections may be ended by a member
        server.do(f"ALTER ROLE {server.name(work.login)} NOLOGIN")
        _end_connections(server, work.login)
    return Done()


def enable(server: Server, work: Work) -> Done:
    if not _has_role(server, work.login):
        raise Trouble("there is no such login", is_silent=False)
    server.do(f"ALTER ROLE {server.name(work.login)} LOGIN")
    return Done()


def check(work: Work) -> Done:
    """Refused only if the server lets the administrator in and not this login: a server that refuses all of them says
    nothing about one."""
    try:
        _connected(work, work.login, work.password, work.resource, is_own=False).close()
        return Done(verdict="good")
    except Trouble as trouble:
        if not trouble.state.startswith("28"):
            return Done(verdict="unknown")
    try:
        _connected(work, work.user, work.secret, work.database).close()
    except Trouble:
        return Done(verdict="unknown")
    return Done(verdict="refused")


VERBS: Mapping[Action, Callable[[Server, Work], Done]] = {
    "grant": grant,
    "revoke": revoke,
    "disable": disable,
    "enable": enable,
}


# ---- parts of verbs


def _has_role(server: Server, name: str) -> bool:
    return bool(server.rows("SELECT 1 FROM pg_roles WHERE rolname = $1", name))


def _join(server: Server, role: str) -> None:
    """An administrator who is no superuser acts for a role as its member."""
    if server.rows("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") != ["t"]:
        server.do(f"GRANT {server.name(role)} TO CURRENT_USER")


def _left_in(server: Server, work: Work) -> list[str]:
    """Databases where the login itself owns something or has a right: it need not act as its group."""
    found = server.rows(
        "SELECT DISTINCT coalesce(d.datname, $2) FROM pg_shdepend s LEFT JOIN pg_database d ON d.oid = s.dbid "
        "JOIN pg_roles r ON r.oid = s.refobjid WHERE s.refclassid = 'pg_authid'::regclass AND r.rolname = $1",
        work.login,
        work.resource,
    )
    return sorted(found)


def _end_connections(server: Server, login: str) -> None:
    """Two looks find none: one that was being opened shows a moment later."""
    until_s = time.monotonic() + ENDED_S
    quiet = 0
    while quiet < 2:
        ended = server.rows("SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE usename = $1", login)
        quiet = 0 if ended else quiet + 1
        if time.monotonic() > until_s:
            raise Trouble("connections of the login do not end", is_silent=True)
        time.sleep(QUIET_S)


# ---- connecting


def _connected(work: Work, user: str, password: str, database: str, *, is_own: bool = True) -> Server:
    """`is_own`: a session of the administrator."""
    wanted = {
        "host": work.host, "port": work.port, "user": user, "password": password, "dbname": database,
        "require_auth": "scram-sha-256", "gssencmode": "disable", "sslcertmode": "disable",
        "client_encoding": "UTF8", "application_name": "holdfast", **_protection(work),
    }  # fmt: skip
    if is_own:
        wanted["options"] = f"{_SESSION} {_BOUNDS}"
    trace = os.memfd_create("trace", os.MFD_CLOEXEC)
    connection = pq.PGconn.connect_start(make_conninfo("", **wanted).encode())
    connection.trace(trace)  # libpq gives the code of an error only there
    connection.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)
    try:
        is_in_time = _polled(connection)
        connection.untrace()
        if connection.status == pq.ConnStatus.OK:
            return Server(connection)
        raise _unconnected(connection, os.pread(trace, 1 << 20, 0)) if is_in_time else _late()
    finally:
        os.close(trace)


def _protection(work: Work) -> dict[str, str]:
    """Without the server's authority, channel binding shows that the end of the TLS connection knows the password's
    verifier: another one between the two is noticed."""
    if work.tls == "off":
        return {"sslmode": "disable"}
    if work.ca:
        return {"sslmode": "verify-full", "sslrootcert": work.ca, "ssl_min_protocol_version": "TLSv1.2"}
    return {"sslmode": "require", "channel_binding": "require", "ssl_min_protocol_version": "TLSv1.2"}


def _polled(connection: abc.PGconn) -> bool:
    until_s = time.monotonic() + CONNECT_S
    waits_to_write = True
    while (left_s := until_s - time.monotonic()) > 0 and connection.status != pq.ConnStatus.BAD:
        ends = [connection.socket]
        select.select([] if waits_to_write else ends, ends if waits_to_write else [], [], left_s)
        state = connection.connect_poll()
        if state in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            return True
        waits_to_write = state == pq.PollingStatus.WRITING
    return connection.status == pq.ConnStatus.BAD


def _late() -> Trouble:
    return Trouble("it does not answer", is_silent=True)


def _unconnected(connection: abc.PGconn, trace: bytes) -> Trouble:
    said = connection.error_message
    state = _state(trace)
    if state:
        return Trouble(_words(said), is_silent=_is_silent(state), state=state)
    return Trouble(_words(said), is_silent=not any(word.encode() in said for word in _DEMANDS))


def _state(trace: bytes) -> str:
    """Of the server's own error, which is the last message: `B 99 ErrorResponse S "FATAL" V "FATAL" C "28P01" M …`."""
    for line in trace.decode("utf-8", "replace").splitlines():
        words = line.split("\t")
        if words[0] == "B" and words[2:3] == ["ErrorResponse"]:
            severity, _, rest = words[3].partition(' C "') if len(words) > 3 else ("", "", "")
            return rest[:5] if len(severity) < 40 else ""
    return ""


def _is_silent(state: str) -> bool:
    return not state or state.startswith(_SILENT_CLASSES) or state in _SILENT_STATES


def _words(said: bytes) -> str:
    text = " ".join(said.decode("utf-8", "replace").split())
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:200]


# ---- the process


def main() -> int:
    _renounce()
    if _is_orphan():
        return 1
    work = msgspec.json.decode(sys.stdin.buffer.read(WORK_BYTES_MAX), type=Work)
    sys.stdout.buffer.write(msgspec.json.encode(_without_values(work, _done(work))))
    return 0


def _done(work: Work) -> Done:
    try:
        if work.action == "check":
            return check(work)
        server = _connected(work, work.user, work.secret, work.database)
        return VERBS[work.action](server, work)
    except Trouble as trouble:
        return Done("silent" if trouble.is_silent else "refused", trouble.why)


def _without_values(work: Work, done: Done) -> Done:
    """The server chooses the words of its errors."""
    if any(value and value in done.why for value in (work.secret, work.password)):
        return msgspec.structs.replace(done, why="its error has a value in it")
    return done


def _is_orphan() -> bool:
    """The agent died before the kernel was asked to end this process with it: it does not read the answer."""
    answer = select.poll()
    answer.register(1, 0)
    return any(event & select.POLLERR for _, event in answer.poll(0))


def _renounce() -> None:
    """No file of root is readable here, no other process reads this one, and it ends with its agent."""
    os.environ["HOME"] = "/nonexistent"  # libpq would read files there
    signal.alarm(LIVES_S)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
        os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
    libc = ctypes.CDLL(None)
    for what, value in ((_NO_NEW_PRIVILEGES, 1), (_DUMPABLE, 0), (_DEATH_SIGNAL, int(signal.SIGKILL))):
        if libc.prctl(what, value, 0, 0, 0):
            raise OSError("this process cannot be protected")


if __name__ == "__main__":
    sys.exit(main())
