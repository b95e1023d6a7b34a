"""What the agent's process and the one that speaks with the PostgreSQL server tell each other."""

from typing import Literal

from msgspec import Struct

from holdfast.ports.need_handler import Verdict

Action = Literal["grant", "revoke", "disable", "enable", "check"]


class Work(Struct, frozen=True):
    """`user`, `secret`: of the administrator, who connects to `database`. `password`: of the login."""

    action: Action
    login: str
    resource: str
    host: str
    port: str
    user: str
    secret: str
    database: str
    tls: str = "on"
    ca: str = ""
    password: str = ""


class Done(Struct, frozen=True):
    """`trouble`: none, "silent" or "refused", and `why` in words that have no value in them."""

    trouble: Literal["", "silent", "refused"] = ""
    why: str = ""
    verdict: Verdict = "unknown"
