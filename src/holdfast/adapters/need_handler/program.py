"""Handler programs of the provider's operator (F-50), as the agent uses them: each job is a process that gives up its
powers (program_child.py) and becomes the program."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.adapters.need_handler.child import ANSWER_BYTES_MAX, Children, Ended
from holdfast.adapters.need_handler.program_child import REFUSED
from holdfast.errors import Invalid
from holdfast.model.need import Grantee
from holdfast.ports.need_handler import Refused, Setting, Silent, Verdict
from holdfast.reconcile.need_values import checked

COMMAND = (sys.executable, "-I", "-B", "-m", "holdfast.adapters.need_handler.program_child")
WITHIN_S = 30.0
ERROR_CHARS_MAX = 300

_FORMS = {
    "exec": re.compile(r"/[^\x00-\x1f\x7f]{1,4000}"),
    "sha256": re.compile(r"[0-9a-f]{64}"),
    "user": re.compile(r"[a-z_][a-z0-9_-]{0,31}"),
    "network": re.compile(r"on|off"),
}


class _Said(Struct, frozen=True, forbid_unknown_fields=True):
    values: Any = None
    verdict: Literal["good", "refused", "unknown"] | None = None
    error: str | None = None
    retry: bool = False


class ProgramHandler:
    """`command` starts the process; tests put another program before it."""

    def __init__(self, command: Sequence[str] = COMMAND, within_s: float = WITHIN_S) -> None:
        self._children = Children(command, within_s)

    async def grant(self, to: Grantee, by: Setting) -> Mapping[str, str]:
        said = await self._said("grant", to, by, {})
        try:
            return checked("", by.params, said.values)
        except Invalid as trouble:
            raise _refused(trouble.message) from None

    async def revoke(self, to: Grantee, by: Setting) -> None:
        await self._said("revoke", to, by, {})

    async def disable(self, to: Grantee, by: Setting) -> None:
        await self._said("disable", to, by, {})

    async def enable(self, to: Grantee, by: Setting) -> None:
        await self._said("enable", to, by, {})

    async def check(self, to: Grantee, by: Setting, values: Mapping[str, str]) -> Verdict:
        try:
            return (await self._said("check", to, by, values)).verdict or "unknown"
        except Silent:
            return "unknown"

    async def _said(self, action: str, to: Grantee, by: Setting, values: Mapping[str, str]) -> _Said:
        arguments = _arguments(by)
        if os.geteuid() != 0:
            raise _refused("only an agent that is root can run it as another user")
        ended = await self._children.run(arguments, _document(action, to, by, values))
        said = _answer(ended)
        if said.error is not None:
            why = _words(said.error, (_secret(by), *values.values()))
            raise _silent(why) if said.retry else _refused(why)
        return said


def _arguments(by: Setting) -> tuple[str, ...]:
    params = {"network": "off", **by.params}
    for name, form in _FORMS.items():
        if not form.fullmatch(params.get(name, "")):
            raise _refused(f"params.{name} of its [[provides]] is missing or has a form that it does not take")
    return tuple(params[name] for name in _FORMS)


def _document(action: str, to: Grantee, by: Setting, values: Mapping[str, str]) -> bytes:
    grantee = msgspec.to_builtins(to) | {"login": to.login, "resource": to.resource}
    asked = {"action": action, **grantee, "secret": _secret(by), "values": dict(values)}
    return msgspec.json.encode(asked) + b"\n"


def _secret(by: Setting) -> str:
    try:
        return by.secret.decode()
    except UnicodeDecodeError:
        raise _refused("params.secret of its [[provides]] is not a text") from None


def _answer(ended: Ended) -> _Said:
    if ended.is_late:
        raise _silent("it took longer than its deadline, and was killed")
    if ended.is_long:
        raise _refused(f"its output is longer than {ANSWER_BYTES_MAX:,} bytes")
    if ended.code == REFUSED and ended.words:
        raise _refused(_words(ended.words, ()))
    if ended.code != 0:
        raise _silent(f"it ended with {ended.code}")
    try:
        return msgspec.convert(json.loads(ended.answer, object_pairs_hook=_once), _Said)
    except (ValueError, RecursionError, msgspec.ValidationError):
        raise _refused("its output is not one JSON object of the form that is documented") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field is there twice")
    return found


def _words(text: str, values: Sequence[str]) -> str:
    """The program chooses the words of its errors."""
    if any(value and value in text for value in values):
        return "its error has a value in it"
    plain = " ".join(text.split())[:ERROR_CHARS_MAX]
    return "".join(sign if sign.isprintable() else "?" for sign in plain) or "it gives no reason"


def _silent(why: str) -> Silent:
    return Silent(
        f"a handler program does not do it now: {why}",
        remedy="look at the service that the program asks, and at docs/reference/need-handlers.md",
    )


def _refused(why: str) -> Refused:
    return Refused(
        f"a handler program cannot be used as it is declared: {why}",
        remedy="compare its [[provides]] in fleet.toml with docs/reference/need-handlers.md",
    )
