"""A handler that only counts what it made, with the faults of the real ones."""

from collections.abc import Mapping

from msgspec import Struct

from holdfast.model.need import Grantee
from holdfast.ports.need_handler import Refused, Setting, Silent, Verdict
from holdfast.ports.random_source import RandomSource


class Killed(BaseException):
    """The provider died between two steps of a verb."""


class Login(Struct, frozen=True):
    resource: str
    password: str
    is_enabled: bool = True
    connections: int = 0


class MemoryHandler:
    """`is_silent`, `is_refused`: of the server it stands for. `killed_after`: steps that are still taken before the
    next verb is cut off; None: it is not."""

    def __init__(self, random: RandomSource) -> None:
        self._random = random
        self.logins: dict[str, Login] = {}
        self.resources: set[str] = set()
        self.calls: list[tuple[str, str]] = []  # verb and login
        self.is_silent = False
        self.is_refused = False
        self.killed_after: int | None = None

    async def grant(self, to: Grantee, by: Setting) -> Mapping[str, str]:
        self._asked("grant", to)
        self._step()
        self.resources.add(to.resource)
        self._step()
        password = self._random.token(24).hex()
        connections = self.logins[to.login].connections if to.login in self.logins else 0
        self.logins[to.login] = Login(to.resource, password, True, connections)
        self._step()
        return {"user": to.login, "password": password, "database": to.resource}

    async def revoke(self, to: Grantee, by: Setting) -> None:
        self._asked("revoke", to)
        if to.login in self.logins:
            self._off(to.login)
            self._step()
            del self.logins[to.login]
            self._step()

    async def disable(self, to: Grantee, by: Setting) -> None:
        self._asked("disable", to)
        if to.login in self.logins:
            self._off(to.login)

    async def enable(self, to: Grantee, by: Setting) -> None:
        self._asked("enable", to)
        found = self.logins.get(to.login)
        if found is None:
            raise Refused("there is no such login", remedy="ask for a new one")
        self._step()
        self.logins[to.login] = Login(found.resource, found.password, True, found.connections)
        self._step()

    async def check(self, to: Grantee, by: Setting, values: Mapping[str, str]) -> Verdict:
        self.calls.append(("check", to.login))
        if self.is_silent:
            return "unknown"
        found = self.logins.get(to.login)
        if found is not None and found.is_enabled and found.password == values["password"]:
            return "good"
        return "unknown" if self.is_refused else "refused"

    # ---- what an app does

    def connect(self, values: Mapping[str, str]) -> bool:
        """A connection that stays open until it is ended; False if it is refused."""
        found = self.logins.get(values["user"])
        if found is None or not found.is_enabled or found.password != values["password"]:
            return False
        self.logins[values["user"]] = Login(found.resource, found.password, True, found.connections + 1)
        return True

    # ---- steps

    def _off(self, login: str) -> None:
        found = self.logins[login]
        self._step()
        self.logins[login] = Login(found.resource, found.password, False, found.connections)
        self._step()
        self.logins[login] = Login(found.resource, found.password, False, 0)
        self._step()

    def _asked(self, verb: str, to: Grantee) -> None:
        self.calls.append((verb, to.login))
        if self.is_silent:
            raise Silent("the server does not answer", remedy="look whether it runs")
        if self.is_refused:
            raise Refused("the server refuses the administrator", remedy="correct its [[provides]]")

    def _step(self) -> None:
        if self.killed_after is None:
            return
        if self.killed_after == 0:
            self.killed_after = None
            raise Killed
        self.killed_after -= 1
