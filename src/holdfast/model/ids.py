"""Names and addresses, parsed once where they enter. Pure."""

import re
from typing import NewType

from holdfast.errors import Invalid

Name = NewType("Name", str)
Address = NewType("Address", str)
Digest = NewType("Digest", str)  # 64 lower-case hex digits of a sha256

NAME_PATTERN = r"^[a-z][a-z0-9-]{0,39}$"
DIGEST_PATTERN = r"^[0-9a-f]{64}$(?!\n)"  # "$" alone would let a final newline through

FLEET = Address("fleet")
TRUST = Address("trust")
KINDS = ("fleet", "trust", "node", "service", "policy", "storage", "alert", "provides")
OF_TWO_NAMES = ("provides",)  # kinds whose names are NODE.TYPE

_name = re.compile(NAME_PATTERN[:-1] + r"\Z")


def is_name(text: str) -> bool:
    return _name.match(text) is not None


def is_name_of(kind: str, name: str) -> bool:
    """Whether a resource of this kind may have the name."""
    if kind not in OF_TWO_NAMES:
        return is_name(name)
    node, _, type = name.partition(".")
    return is_name(node) and is_name(type)


def address_of(kind: str, name: str) -> Address:
    return Address(f"{kind}.{name}")


def kind_of(address: str) -> str:
    return address.partition(".")[0]


def parse_address(text: str) -> Address:
    """`service.web` is returned; anything else is refused with the form it should have."""
    kind, dot, name = text.partition(".")
    whole = kind in ("fleet", "trust") and not dot
    if whole or (kind in KINDS and is_name_of(kind, name)):
        return Address(text)
    raise Invalid(
        f"{text!r} is not an address",
        remedy="write KIND.NAME, for example service.web or node.w1 (kinds: node, service, policy, storage, alert), or "
        "provides.NODE.TYPE",
    )
