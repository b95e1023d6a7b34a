"""Encode an event as the next line of the audit chain; bounds and escapes untrusted text. Pure."""

from msgspec import Struct, structs

from holdfast.model import audit, canonical
from holdfast.model.audit import AuditEntry, AuditHead, Event

# Bounds untrusted text: an entry stays far below a page.
TEXT_CHARS_MAX = 1000


class NextLine(Struct, frozen=True):
    entry: AuditEntry
    line: bytes  # without the newline
    head: AuditHead  # after this line is written


def after(head: AuditHead, event: Event, at_ms: int) -> NextLine:
    entry = AuditEntry(head.number + 1, at_ms, event, head.digest)
    try:
        line = audit.encode(entry)
    except UnicodeEncodeError:  # a lone surrogate, for example from a request header
        return after(head, _spelled_out(event), at_ms)
    if len(line) > TEXT_CHARS_MAX and any(len(text) > TEXT_CHARS_MAX for text in _texts(event).values()):
        return after(head, _clipped(event), at_ms)
    return NextLine(entry, line, AuditHead(entry.number, canonical.digest(line)))


def _texts(event: Event) -> dict[str, str]:
    return {name: value for name, value in structs.asdict(event).items() if isinstance(value, str)}


def _clipped(event: Event) -> Event:
    return structs.replace(event, **{name: _clip(text) for name, text in _texts(event).items()})


def _clip(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def _spelled_out(event: Event) -> Event:
    plain = {name: text.encode("utf-8", "backslashreplace").decode() for name, text in _texts(event).items()}
    return structs.replace(event, **plain)
