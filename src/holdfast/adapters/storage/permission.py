"""The last check before data is moved or deleted: its names. Pure."""

import re

from holdfast.errors import Invalid, NotPermitted
from holdfast.model.ids import is_name

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")  # a deployment, a component of 40 letters, an attempt


def is_id(text: str) -> bool:
    """Of a checkpoint. An id never starts with a dot: such names are reserved for the storage."""
    return _ID.fullmatch(text) is not None


def check_id(text: str) -> str:
    if not is_id(text):
        raise Invalid(f"{text[:70]!r} is not a checkpoint id", remedy="use letters and digits, for example a1b2")
    return text


def check_name(name: str) -> str:
    if not is_name(name):
        raise Invalid(f"{name[:60]!r} is not the name of a data directory", remedy="give a service, for example web")
    return name


def not_ours(why: str) -> NotPermitted:
    return NotPermitted(
        f"{why}; nothing was changed there",
        remedy="inspect it; replace it with a plain directory or unmount it, then send the order again",
        code="not_a_plain_directory",
    )
