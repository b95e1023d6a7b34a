"""The key of one generation of a service's archives, as it lies sealed beside them. Pure.

The plaintext is an age identity file: stock tools open packs with it. Its comments are the purpose, inside the seal: an
identity that belongs to another fleet, service or generation is refused.
"""

import re

from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model.archive import Purpose
from holdfast.model.backup_key import SERVICE_FORM

PLAIN_BYTES_MAX = 1024
_TITLE = "# Holdfast backup identity"
_FORM = re.compile(
    re.escape(_TITLE)
    + r"\n# fleet: ([0-9a-f]{64})\n# service: ("
    + SERVICE_FORM
    + r")\n# generation: ([1-9][0-9]{0,9})\n"
    r"(AGE-SECRET-KEY-1[0-9A-Z]{58})\n"
)


class ArchiveKey(Struct, frozen=True):
    purpose: Purpose
    identity: str  # AGE-SECRET-KEY-1…

    def __repr__(self) -> str:  # never the key, so that no traceback or log shows it
        return f"ArchiveKey({self.purpose!r})"


def written(key: ArchiveKey) -> bytes:
    purpose = key.purpose
    lines = (_TITLE, f"# fleet: {purpose.fleet}", f"# service: {purpose.service}")
    return "\n".join((*lines, f"# generation: {purpose.generation}", key.identity, "")).encode()


def read(plain: bytes, wanted: Purpose) -> ArchiveKey:
    """Raises Corrupt if it is not exactly what `written` makes, or for another purpose."""
    try:
        found = _FORM.fullmatch(plain[: PLAIN_BYTES_MAX + 1].decode("ascii"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise Corrupt(
            f"the key of the backups of {wanted.service}, generation {wanted.generation}, is not readable",
            remedy="use another target that has these backups",
            code="archive_key_damaged",
        )
    purpose = Purpose(found[1], found[2], int(found[3]))
    if purpose != wanted:
        raise Corrupt(
            f"a key for {purpose.shown} lies where the key for {wanted.shown} belongs",
            remedy="use another target that has these backups; then look who can write to this one",
            code="archive_purpose",
        )
    return ArchiveKey(purpose, found[4])
