"""Bech32 (BIP 173), the spelling of age keys: text to 32 bytes. Checks the checksum; corrects nothing."""

from holdfast.errors import Invalid

_ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CHECKSUM_CHARS = 6
KEY_BYTES = 32


def key_of(text: str, prefix: str) -> bytes:
    """The 32 bytes of `age1…` or `AGE-SECRET-KEY-1…`. The text of a wrong one is not in the error: it may be secret."""
    lower = text.lower()
    name, _, symbols = lower.rpartition("1")
    is_one_case = text in (lower, text.upper())
    values = [_ALPHABET.find(symbol) for symbol in symbols]
    if name != prefix or not is_one_case or -1 in values or _polymod(_expanded(name) + values) != 1:
        raise _wrong(prefix)
    number = 0
    for value in values[:-_CHECKSUM_CHARS]:
        number = number << 5 | value
    spare = 5 * (len(values) - _CHECKSUM_CHARS) - 8 * KEY_BYTES
    if not 0 <= spare < 5 or number & ((1 << spare) - 1):
        raise _wrong(prefix)
    return (number >> spare).to_bytes(KEY_BYTES, "big")


def _expanded(name: str) -> list[int]:
    return [ord(one) >> 5 for one in name] + [0] + [ord(one) & 31 for one in name]


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, term in enumerate(_GENERATOR):
            check ^= term if top >> bit & 1 else 0
    return check


def _wrong(prefix: str) -> Invalid:
    return Invalid(
        f"this is not a valid age key of the form {prefix.upper() if prefix.endswith('-') else prefix}1…",
        remedy="give a key that age-keygen made",
        code="recipient_invalid",
    )
