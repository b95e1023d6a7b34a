"""[[provides]]: what each type must have, and what of it a consumer has to know. Pure.

Each [[provides]] has its own parameters; a need has others (planning/needs.py). The command line shows the complaints
with file and line; the hub and the nodes refuse a revision for the same ones.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec import UNSET

from holdfast.model import duration
from holdfast.model.ids import is_name
from holdfast.model.nearest import hint
from holdfast.model.need import BUILT_IN, FIELDS_MAX, Provides
from holdfast.planning.complaint import Complaint, quoted

NOT_BUILT = ("oidc", "certificate", "s3", "git")
DATA_BEARING = ("postgres",)  # another provider of these begins with other data
TTL_MS_MIN = 600_000

_KEYS: Mapping[str, tuple[str, ...]] = {"postgres": ("address", "secret", "user", "database", "tls", "ca")}
_KEYS_OF_HANDLERS = ("exec", "sha256", "fields", "secret", "user", "network")
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?):([1-9][0-9]{0,4})\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_FIELD = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\Z")
_WORD = re.compile(r"[!-~]{1,63}\Z")


def facts(provides: Provides) -> dict[str, str]:
    """What an answer cannot change: where the server is, or which fields an answer may have."""
    if provides.type in BUILT_IN:
        host, _, port = provides.params.get("address", "").rpartition(":")
        return {"host": host.strip("[]"), "port": port}
    return {"fields": " ".join(provides.params.get("fields", "").split())}


def not_built(type: str) -> Complaint | None:
    if type not in NOT_BUILT:
        return None
    remedy = f"until then use {' or '.join(BUILT_IN)}, or a handler program of a type with another name"
    return Complaint(("type",), f'the type "{type}" is not built yet', remedy)


def complaints(provides: Provides) -> Iterator[Complaint]:
    """Everything that is wrong with one of them alone."""
    if later := not_built(provides.type):
        yield later
        return
    if len(set(provides.services)) < len(provides.services):
        yield Complaint(("services",), "names a service twice", "remove one of them")
    if provides.ttl is not UNSET and duration.milliseconds(provides.ttl) < TTL_MS_MIN:
        yield Complaint(("ttl",), f"{provides.ttl} is too short for a credential", 'write at least "10m"')
    known = _KEYS.get(provides.type, _KEYS_OF_HANDLERS)
    unknown = next((key for key in provides.params if key not in known), "")
    if unknown:
        what = f"{quoted(unknown)} is not a parameter of {provides.type}"
        yield Complaint(("params", unknown), what, f"{hint(unknown, known)}the parameters are: {', '.join(known)}")
    yield from _of_postgres(provides.params) if provides.type in BUILT_IN else _of_handler(provides)
    secret = provides.params.get("secret")
    if secret is not None and not is_name(secret):
        what = f"{quoted(secret)} is not the name of a secret"
        yield Complaint(("params", "secret"), what, "write the name of its file in secrets/, without .age")


def _of_postgres(params: Mapping[str, str]) -> Iterator[Complaint]:
    what_is_missing = {
        "address": 'write address = "HOST:PORT" of the server, such as "127.0.0.1:5432"',
        "secret": 'seal the password of the administrator with `holdfast secret set NAME`, and write secret = "NAME"',
    }
    yield from _missing(params, what_is_missing)
    place = _PLACE.match(params.get("address", "x:1"))
    if place is None or int(place[3]) > 65535:
        what = f"{quoted(params['address'])} is not HOST:PORT"
        yield Complaint(("params", "address"), what, what_is_missing["address"])
    for key in ("user", "database"):
        if key in params and not _WORD.match(params[key]):
            what = f"{quoted(params[key])} is not a name that the server can have"
            yield Complaint(("params", key), what, "write 1 to 63 printable characters without a space")
    if params.get("tls", "on") not in ("on", "off"):
        yield Complaint(("params", "tls"), f"{quoted(params['tls'])} is neither on nor off", 'write "on" or "off"')
    if "ca" in params and (not params["ca"].startswith("/") or params.get("tls") == "off"):
        what = f"{quoted(params['ca'])} is not the path of certificates, or tls is off"
        yield Complaint(("params", "ca"), what, 'write ca = "/path/ca.pem" with tls = "on"')


def _of_handler(provides: Provides) -> Iterator[Complaint]:
    params, is_unknown = provides.params, "exec" not in provides.params
    near = hint(provides.type, BUILT_IN) if is_unknown else ""
    yield from _missing(
        params,
        {
            "exec": f'{near}built in are: {", ".join(BUILT_IN)}; any other type has exec = "/path/of/its/handler"',
            "sha256": "write the digest of the program, as `sha256sum` prints it",
            "fields": 'name the fields of its answers, such as fields = "user password"',
            "user": "name the user on the node that runs the program; it must not be root",
        },
    )
    path = params.get("exec", "/x")
    if not path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")[1:]):
        what = f"{quoted(path)} is not the path of a program"
        yield Complaint(("params", "exec"), what, "write an absolute path without empty, . or .. parts")
    if not _DIGEST.match(params.get("sha256", "0" * 64)):
        what = f"{quoted(params['sha256'])} is not a sha256"
        yield Complaint(("params", "sha256"), what, "write 64 hexadecimal digits in lower case")
    fields = params.get("fields", "x").split()
    if not 0 < len(fields) <= FIELDS_MAX or len(set(fields)) < len(fields) or not all(map(_FIELD.match, fields)):
        what = f"{quoted(params['fields'])} is not a list of fields"
        remedy = f"write 1 to {FIELDS_MAX} different lower-case names with spaces between them"
        yield Complaint(("params", "fields"), what, remedy)
    if params.get("network", "off") not in ("on", "off"):
        what = f"{quoted(params['network'])} is neither on nor off"
        yield Complaint(("params", "network"), what, 'write "on" or "off"')
    user = params.get("user", "x")
    if user == "root" or not _USER.match(user):
        what = f"{quoted(user)} is not a user that may run a handler"
        yield Complaint(("params", "user"), what, "name a user of the node that has no rights of its own")


def _missing(params: Mapping[str, str], remedies: Mapping[str, str]) -> Iterator[Complaint]:
    for key, remedy in remedies.items():
        if key not in params:
            yield Complaint(("params", key), "missing key", remedy)
