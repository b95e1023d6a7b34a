"""Logins to databases of a PostgreSQL server, as the agent uses them: each job is a process (postgres_child.py), so
that the agent holds no connection, no administrator's password and no driver."""

import base64
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import msgspec

from holdfast.adapters.need_handler.child import Children, Ended
from holdfast.adapters.need_handler.work import Action, Done, Work
from holdfast.model.need import Grantee
from holdfast.ports.need_handler import Refused, Setting, Silent, Verdict
from holdfast.ports.random_source import RandomSource
from holdfast.reconcile.need_values import checked

COMMAND = (sys.executable, "-I", "-B", "-m", "holdfast.adapters.need_handler.postgres_child")
WITHIN_S = 30.0
PASSWORD_BYTES = 24

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,63}")
_PATH = re.compile(r"/[^\x00-\x1f\x7f]+")


class PostgresHandler:
    """`command` starts the process; tests put another program before it."""

    def __init__(self, random: RandomSource, command: Sequence[str] = COMMAND, within_s: float = WITHIN_S) -> None:
        self._random = random
        self._children = Children(command, within_s)

    async def grant(self, to: Grantee, by: Setting) -> Mapping[str, str]:
        password = base64.urlsafe_b64encode(self._random.token(PASSWORD_BYTES)).decode()
        await self._done(_work("grant", to, by, password))
        values = {"user": to.login, "password": password, "database": to.resource}
        return checked("postgres", {}, values)

    async def revoke(self, to: Grantee, by: Setting) -> None:
        await self._done(_work("revoke", to, by))

    async def disable(self, to: Grantee, by: Setting) -> None:
        await self._done(_work("disable", to, by))

    async def enable(self, to: Grantee, by: Setting) -> None:
        await self._done(_work("enable", to, by))

    async def check(self, to: Grantee, by: Setting, values: Mapping[str, str]) -> Verdict:
        password = checked("postgres", {}, values)["password"]
        try:
            return (await self._done(_work("check", to, by, password))).verdict
        except Silent:
            return "unknown"

    async def _done(self, work: Work) -> Done:
        ended = await self._children.run((), msgspec.json.encode(work))
        done = _answer(ended)
        if done.trouble == "silent":
            raise _silent(done.why)
        if done.trouble == "refused":
            raise _refused(done.why)
        return done


def _answer(ended: Ended) -> Done:
    if ended.is_late:
        return Done("silent", "it took longer than its deadline")
    try:
        return msgspec.json.decode(ended.answer, type=Done)
    except msgspec.DecodeError:
        return Done("silent", f"the process that asks it ended with {ended.code}")


def _work(action: Action, to: Grantee, by: Setting, password: str = "") -> Work:
    params = by.params
    host, port = _address(params.get("address", ""))
    try:
        secret = by.secret.decode()
    except UnicodeDecodeError:
        _refused_param("secret")
    if not secret or "\0" in secret:
        _refused_param("secret")
    user, database = params.get("user", "postgres"), params.get("database", "postgres")
    tls, ca = params.get("tls", "on"), params.get("ca", "")
    for name, text, form in (("user", user, _NAME), ("database", database, _NAME), ("ca", ca, _PATH)):
        if not form.fullmatch(text) and (name, text) != ("ca", ""):
            _refused_param(name)
    if tls not in ("on", "off") or (ca and tls == "off"):
        _refused_param("tls")
    return Work(action, to.login, to.resource, host, port, user, secret, database, tls, ca, password)


def _address(text: str) -> tuple[str, str]:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 65536:
        _refused_param("address")
    return found[1].strip("[]"), found[2]


def _refused_param(name: str) -> NoReturn:
    raise _refused(f"params.{name} of its [[provides]] is missing or has a form that it does not take")


def _silent(why: str) -> Silent:
    return Silent(
        f"the PostgreSQL server does not do it now: {why}",
        remedy="look whether it runs, and whether this node reaches it",
    )


def _refused(why: str) -> Refused:
    return Refused(
        f"the PostgreSQL server cannot be used as it is declared: {why}",
        remedy="compare its [[provides]] in fleet.toml with docs/reference/need-handlers.md",
    )
