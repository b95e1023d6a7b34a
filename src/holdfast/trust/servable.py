"""Decide whether a certificate may be served: the only maker of `Servable`. Pure; reads facts, never keys."""

from collections.abc import Collection, Mapping
from typing import Literal

from holdfast.errors import Failed
from holdfast.model import canonical
from holdfast.model.certificate import DAY_S, LEAF_DAYS, ChainFacts, ChainLink
from holdfast.ports.proxy import Servable
from holdfast.trust.certificates import Complaint, renew_due

EXPIRING_DAYS = 25  # the renewal due at 30 days has failed for five days: an operator has to look (M-88)
STALE_DAYS = 21  # a certificate served with so little time left was not replaced by the renewed one

# A weaker key is not served; a kind that is not listed is unknown.
KEY_BITS_MIN: Mapping[str, int] = {"rsa": 2048, "ec": 256, "ed25519": 256}

_CHAIN_REMEDY = (
    "configure the authority to send the full chain, leaf first, with its intermediates; then `holdfast sync`"
)
_KEEP_TRYING = "wait: the node orders another one automatically; `holdfast node show NAME` lists what prevents it"

Rung = Literal["fresh", "due", "expiring", "stale", "expired"]


def servable(facts: ChainFacts, chain: bytes, private: bytes, names: Collection[str], now_s: float) -> Servable:
    """The proof, or Failed with the reason and a remedy; the texts never contain a byte of the key (I-16, I-18)."""
    found = complaint(facts, names, now_s)
    if found is None and facts.digest != canonical.digest(chain):
        found = "it is not the chain that was verified"
    if found is not None:
        raise refusal(names, found)
    return Servable(facts.leaf.digest, chain, private)


def refusal(names: Collection[str], found: Complaint) -> Failed:
    remedy = _CHAIN_REMEDY if "chain" in found else _KEEP_TRYING
    return Failed(
        f"the certificate for {', '.join(sorted(names)) or 'no name'} is not served: {found}",
        remedy=remedy,
        code="certificate_failed",
    )


# ---- the rules, one reason each


def complaint(facts: ChainFacts, names: Collection[str], now_s: float) -> Complaint | None:
    """Why this must not be served, or None. The order is the order in which an operator would fix it."""
    return (
        _key_complaint(facts)
        or _leaf_complaint(facts)
        or _names_complaint(facts, names)
        or _chain_complaint(facts.links)
        or _time_complaint(facts, now_s)
    )


def _key_complaint(facts: ChainFacts) -> Complaint | None:
    if not facts.key_belongs:
        return "its private key belongs to another certificate"
    for link in facts.links:
        if link.key_bits < KEY_BITS_MIN.get(link.key_kind, 1 << 30):
            return f"a key of kind {link.key_kind or 'unknown'} with {link.key_bits} bits is too weak"
    return None


def _leaf_complaint(facts: ChainFacts) -> Complaint | None:
    if facts.links[0].authority:
        return "it is the certificate of an authority, not of a server"
    if not facts.serves:
        return "it is not valid for servers (serverAuth)"
    return None


def _names_complaint(facts: ChainFacts, names: Collection[str]) -> Complaint | None:
    """Exactly the requested names (M-82): with a further name, the key's holder could answer for that name too."""
    carried = {name.lower() for name in facts.leaf.names}
    lacking, foreign = set(names) - carried, carried - set(names)
    if not names:
        return "no name was requested"
    if lacking:
        return f"it is for {', '.join(sorted(carried)) or 'no name'}, not for {', '.join(sorted(lacking))}"
    if foreign or facts.leaf.addresses or facts.other_names:
        others = (*sorted(foreign), *facts.leaf.addresses)
        return f"it has names that were not requested: {', '.join(others) or 'of another kind'}"
    return None


def _chain_complaint(links: tuple[ChainLink, ...]) -> Complaint | None:
    """Full (M-06): every link signed by the next. A public authority leaves its root out, never its intermediate."""
    if len(links) < 2:
        return "the chain is the leaf alone, and clients that lack its intermediate would not trust it"
    for place, link in enumerate(links[:-1], 1):
        if not link.signed_by_next:
            return f"certificate {place} of the chain is not signed by the next one: one is missing or out of order"
    for place, link in enumerate(links[1:], 2):
        if not link.authority:
            return f"certificate {place} of the chain is not an authority"
    return None


def _time_complaint(facts: ChainFacts, now_s: float) -> Complaint | None:
    if now_s < facts.not_before_s:
        return "it is not valid yet"
    if now_s >= facts.not_after_s:
        return "it has expired"
    return None


# ---- how close it is to expiry


def rung(not_before_s: float, not_after_s: float, now_s: float) -> Rung:
    """30, 25 and 21 days before the end of 90; the same shares of a shorter life, no more of a longer one."""
    left_s, life_s = not_after_s - now_s, not_after_s - not_before_s
    if left_s <= 0:
        return "expired"
    if left_s <= _within_s(STALE_DAYS, life_s):
        return "stale"
    if left_s <= _within_s(EXPIRING_DAYS, life_s):
        return "expiring"
    return "due" if renew_due(not_before_s, not_after_s, now_s) else "fresh"


def _within_s(days: int, life_s: float) -> float:
    return min(days * DAY_S, life_s * days / LEAF_DAYS)
