"""The operator's age identity in one private file. Never overwrites an existing file."""

import os

from holdfast.errors import Invalid
from holdfast.ports.disk import Disk

FILE_BYTES_MAX = 4096
_REMARK = "# age identity of a Holdfast operator; opens secrets sealed to you"


def recipient(path: str, disk: Disk) -> str:
    """The age recipient of this identity; the identity is created if it is missing."""
    import pyrage

    content = disk.read(path, FILE_BYTES_MAX)
    if content is None:
        identity = pyrage.x25519.Identity.generate()
        disk.make_directory(os.path.dirname(os.path.abspath(path)), 0o700)
        disk.replace(path, f"{_REMARK}\n{identity}\n".encode(), 0o600)
        return str(identity.to_public())
    try:
        return str(pyrage.x25519.Identity.from_str(_secret(content)).to_public())
    except (pyrage.IdentityError, ValueError):
        raise Invalid(
            f"{path} contains no age identity",
            remedy=f"move {path} away and repeat the command",
            code="identity_damaged",
        ) from None


def _secret(content: bytes) -> str:
    """The last line that is not a comment; age-keygen writes the same layout."""
    lines = [line.strip() for line in content.decode().splitlines()]
    return next((line for line in reversed(lines) if line and not line.startswith("#")), "")
