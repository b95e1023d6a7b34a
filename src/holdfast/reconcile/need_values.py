"""What may be in the answer to a need. The answer is untrusted, whether a handler or another node gives it."""

import re
from collections.abc import Mapping

from holdfast.errors import Invalid
from holdfast.model.need import FIELDS_MAX, VALUE_CHARS_MAX

TOGETHER_BYTES_MAX = 64 * 1024
MULTILINE = "_pem"  # how a field's name ends that may have several lines

_FIELD = re.compile(r"[a-z][a-z0-9_]{0,39}")
_IDENTIFIER = re.compile(r"[a-z0-9_]{1,63}")
_PEM = re.compile(r"[\n\x20-\x7e]+")
# Every field of a built-in type, with its form. An app builds URLs and files of settings from these values.
CLOSED: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    "postgres": {"user": _IDENTIFIER, "password": re.compile(r"[A-Za-z0-9_-]{16,256}"), "database": _IDENTIFIER},
}


def checked(type: str, facts: Mapping[str, str], values: object) -> dict[str, str]:
    """The values as they may be delivered. `facts` are those of the manifest. No error has a value in it."""
    if not isinstance(values, Mapping) or not values:
        raise _refused("it is not an object of fields")
    if len(values) > FIELDS_MAX:
        raise _refused(f"it has more than {FIELDS_MAX} fields")
    allowed = _allowed(type, facts)
    found = {_named(name, allowed): text for name, text in values.items()}
    if type in CLOSED and (missing := sorted(CLOSED[type].keys() - found.keys())):
        raise _refused(f"it lacks {', '.join(missing)}")
    texts = {name: _text(type, name, text) for name, text in found.items()}
    if sum(len(name) + len(text.encode()) for name, text in texts.items()) > TOGETHER_BYTES_MAX:
        raise _refused(f"it has more than {TOGETHER_BYTES_MAX:,} bytes")
    return texts


def _allowed(type: str, facts: Mapping[str, str]) -> frozenset[str]:
    return frozenset(CLOSED[type] if type in CLOSED else facts.get("fields", "").split())


def _named(name: object, allowed: frozenset[str]) -> str:
    """The name becomes the name of a file."""
    if not isinstance(name, str) or not _FIELD.fullmatch(name):
        raise _refused("the name of a field is not of a-z, 0-9 and _ (40 at most)")
    if name not in allowed:
        raise _refused(f"it has the field {name}, which this type does not have")
    return name


def _text(type: str, name: str, text: object) -> str:
    if not isinstance(text, str):
        raise _refused(f"{name} is not a text")
    if not text:
        raise _refused(f"{name} is empty")
    if len(text) > VALUE_CHARS_MAX or len(text.encode(errors="replace")) > VALUE_CHARS_MAX:
        raise _refused(f"{name} has more than {VALUE_CHARS_MAX:,} bytes")
    is_pem = name.endswith(MULTILINE)
    if not (_PEM.fullmatch(text) if is_pem else text.isprintable()):
        raise _refused(f"{name} has characters that cannot be printed")
    if type in CLOSED and not CLOSED[type][name].fullmatch(text):
        raise _refused(f"{name} has another form than this type gives it")
    return text


def _refused(why: str) -> Invalid:
    return Invalid(
        f"the answer to a need is refused: {why}",
        remedy="correct what this type's handler answers on the node that provides it",
        code="need_answer_refused",
    )
