"""The rules of certificates: who may issue which names, when to renew, whether a peer is the hub. Pure."""

import re
from collections.abc import Mapping, Sequence

from holdfast.errors import Invalid, NotPermitted
from holdfast.model import ssh_key
from holdfast.model.certificate import CertificateFacts, Constraints
from holdfast.model.fleet import Role, Settings
from holdfast.model.route import within, zone_of

APART_ZONE = "holdfast.invalid"
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\Z")

Complaint = str


# ---- names


def checked_name(name: str) -> str:
    """One plain hostname in lower case; no wildcard is ever issued."""
    if _NAME.match(name.lower()) is None:
        raise Invalid(
            f"a certificate cannot have the hostname {name[:80]!r}",
            remedy="use lower-case letters, digits, dashes and dots, such as hub.example.com",
            code="certificate_name",
        )
    return name.lower()


def named(facts: CertificateFacts, host: str) -> bool:
    """The certificate names exactly the dialled host, as hostname or address."""
    if host.strip("[]") in facts.addresses:  # written the same way; loading ipaddress takes 1.4 ms
        return True
    import ipaddress

    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.lower().rstrip(".") in {name.lower() for name in facts.names}
    return address in {ipaddress.ip_address(text) for text in facts.addresses}


# ---- the hub


def hub_complaint(facts: CertificateFacts, hub_key: str, host: str, now_s: float) -> Complaint | None:
    """Why this certificate does not prove the hub, or None. The handshake has proven that the peer holds its key."""
    pinned = ssh_key.parse(hub_key)
    if not facts.key or ssh_key.parse(facts.key).blob != pinned.blob:
        return f"its key is {_shown(facts.key)}, but the pinned key is {ssh_key.fingerprint(pinned)}"
    if not facts.self_signed:
        return "its certificate is not signed by that key"
    if now_s < facts.not_before_s:
        return "its certificate is not valid yet"
    if now_s >= facts.not_after_s:
        return "its certificate has expired"
    if not named(facts, host):
        return f"its certificate is for {', '.join((*facts.names, *facts.addresses)) or 'no name'}, not for {host}"
    return None


def _shown(key: str) -> str:
    return ssh_key.fingerprint(ssh_key.parse(key)) if key else "of another kind"


# ---- renewal


def renew_due(not_before_s: float, not_after_s: float, now_s: float) -> bool:
    """With a third of its life left, or before its validity begins: a clock once wrong is no reason to wait."""
    return now_s < not_before_s or not_after_s - now_s <= (not_after_s - not_before_s) / 3


# ---- who may issue what

# What a node of this role may issue (M-26, I-17). A node with several roles may issue what each of them may.
_INTERNAL, _PUBLIC = "internal", "public"
TREES_OF_ROLE: Mapping[Role, str] = {
    "worker": _INTERNAL,
    "hub": _INTERNAL,
    "provider": _INTERNAL,
    "builder": _INTERNAL,
    "edge": _PUBLIC,
}


def constraints(node: str, roles: Sequence[Role], settings: Settings) -> Constraints:
    """The subtrees of this node's issuing certificate. If one zone lies within the other, it is excluded."""
    zone, public = zone_of(settings), settings.public_domains
    trees = {TREES_OF_ROLE[role] for role in roles}
    permitted = {zone} if _INTERNAL in trees else {listener_name(node, roles, settings)}
    excluded: set[str] = set()
    if _PUBLIC in trees:
        permitted |= set(public)
    elif trees:
        excluded = {domain for domain in public if domain != zone and within(domain, zone)}
    if trees == {_PUBLIC} and any(within(zone, domain) for domain in public):
        excluded = {zone}
    return Constraints(tuple(sorted(permitted)), tuple(sorted(excluded)))


def listener_name(node: str, roles: Sequence[Role], settings: Settings) -> str:
    """The name under which a node serves its own HTTP API: the only internal name that an edge may also have.

    If the internal zone lies within a public domain, it is excluded from what an edge may issue, and this name with
    it. The edge's name is then in a zone that no resolver knows. That is enough: callers dial addresses, not names.
    """
    zone = zone_of(settings)
    lies_within = any(within(zone, domain) for domain in settings.public_domains)
    if {TREES_OF_ROLE[role] for role in roles} == {_PUBLIC} and lies_within:
        zone = APART_ZONE
    return f"{node}.nodes.{zone}"


def internal_complaint(name: str, settings: Settings) -> Complaint | None:
    """Why a worker may not serve a certificate for this name, or None (I-17). The narrower subtree owns a name."""
    zone = zone_of(settings)
    if not within(name, zone):
        return f"{name} is not within the internal zone {zone}"
    if any(domain != zone and within(domain, zone) and within(name, domain) for domain in settings.public_domains):
        return f"{name} is a public name"
    return None


def public_complaint(name: str, settings: Settings) -> Complaint | None:
    """Why an edge may not serve a certificate for this name, or None (M-24, M-82, I-17)."""
    domains = [domain for domain in settings.public_domains if within(name, domain)]
    if not domains:
        return f"{name} is not within {', '.join(settings.public_domains) or 'a public domain: there is none'}"
    zone = zone_of(settings)
    if within(name, zone) and any(within(zone, domain) for domain in domains):
        return f"{name} is an internal name"
    return None


def may_issue(allowed: Constraints, name: str) -> bool:
    inside = any(within(name, tree) for tree in allowed.permitted)
    return inside and not any(within(name, tree) for tree in allowed.excluded)


def checked_names(allowed: Constraints, names: Sequence[str]) -> tuple[str, ...]:
    """Hostnames that this issuer may sign, or a refusal that names the first it may not."""
    plain = tuple(checked_name(name) for name in names)
    for name in plain:
        if not may_issue(allowed, name):
            raise NotPermitted(
                f"this node may not issue a certificate for {name}; it may issue for names within "
                f"{', '.join(allowed.permitted)}"
                + (f" but not {', '.join(allowed.excluded)}" if allowed.excluded else ""),
                remedy="check internal_zone, public_domains and the node's roles in fleet.toml, then: holdfast plan",
                code="certificate_name",
            )
    if not plain:
        raise Invalid(
            "a certificate needs a name", remedy="name a host within the node's zone", code="certificate_name"
        )
    return plain


def needs_reissue(facts: CertificateFacts, wanted: Constraints, now_s: float) -> Complaint | None:
    """Why a node's issuing certificate has to be reissued with the same key; this changes its pin."""
    if facts.constraints != wanted:
        return "the fleet's zones or the node's roles changed"
    if renew_due(facts.not_before_s, facts.not_after_s, now_s):
        return "it has reached the last third of its life"
    return None


def leaf_due(facts: CertificateFacts, names: Sequence[str], now_s: float) -> bool:
    return set(facts.names) != set(names) or renew_due(facts.not_before_s, facts.not_after_s, now_s)


def issuer_complaint(facts: CertificateFacts, wanted: Constraints, now_s: float) -> Complaint | None:
    """Why a node's issuing certificate must not be trusted, or None. The node itself reports which certificate it
    has, and a compromised node could report one without limits."""
    if not facts.self_signed:
        return "its own key did not sign it"
    if not facts.bounded:
        return "it is not limited to issuing leaf certificates for hostnames"
    if facts.constraints != wanted:
        return (
            f"it may issue for {', '.join(facts.constraints.permitted)}, its role allows {', '.join(wanted.permitted)}"
        )
    if not facts.not_before_s <= now_s < facts.not_after_s:
        return "it is not valid now"
    return None
