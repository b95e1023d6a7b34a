"""Makes what a provider gives: a login to a database, a client of an identity provider. One product for each type.

Every verb may be repeated: a provider that was killed asks again with the same names, and there is never a second
login. No value that is returned or given may appear in a log, an error or a process argument.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.errors import NeedsOperator, TryLater
from holdfast.model.need import Grantee

Verdict = Literal["good", "refused", "unknown"]


class Setting(Struct, frozen=True):
    """Of `[[provides]]`, as the provider's own manifest says. `secret` is opened for one call."""

    params: Mapping[str, str]
    secret: bytes = b""


class Silent(TryLater):
    """The server does not answer now. Nothing is known about it."""

    code = "provider_server_silent"


class Refused(NeedsOperator):
    """The server answers and refuses: wrong administrator, missing right, a parameter it does not accept."""

    code = "provider_server_refused"


class NeedHandler(Protocol):
    async def grant(self, to: Grantee, by: Setting) -> Mapping[str, str]:
        """Field → value. The resource is made if it is missing; the login is new, or has new values afterwards."""
        ...

    async def revoke(self, to: Grantee, by: Setting) -> None:
        """The login is gone, and its connections have ended. The resource with its data stays."""
        ...

    async def disable(self, to: Grantee, by: Setting) -> None:
        """The login is refused from now on and its connections have ended; `enable` takes that back."""
        ...

    async def enable(self, to: Grantee, by: Setting) -> None: ...

    async def check(self, to: Grantee, by: Setting, values: Mapping[str, str]) -> Verdict:
        """Try the login as its user would. `refused` only if the server itself refused it; a server that is silent, or
        refuses the administrator too, says nothing about one login: `unknown`."""
        ...
