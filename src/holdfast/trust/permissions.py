"""Who may do what at a hub: one table, every operation and every kind of principal. Pure; what is not here is denied.

Permission is asked for the *kind* of a principal. That a node acts for itself alone (I-12), that a revision or an order
has the signatures it needs, is judged where the request is carried out, by what was signed and never by who carried it.
"""

from collections.abc import Mapping

from holdfast.errors import HoldfastError, NotPermitted, Unauthenticated
from holdfast.model.principal import KINDS, Kind, Principal

OPERATIONS: Mapping[str, str] = {
    "health": "ask if the process answers",
    "describe": "read the description of the HTTP interface",
    "read-head": "number and digest of the revision served",
    "read-status": "what the hub says of itself",
    "read-applied": "the revision served, whole",
    "read-history": "records of revisions, and the text that was signed",
    "read-links": "the chain of revisions as a verifier needs it",
    "read-content": "any content by its digest",
    "read-own-content": "contents that the caller's own manifest names",
    "read-observations": "what nodes were last seen to be",
    "read-damage": "contents that are damaged or missing",
    "read-nodes": "every node with its health, pulse and report",
    "read-orders": "orders and their results",
    "read-audit": "the audit log of the hub or of a node",
    "read-tokens": "which tokens there are; never what is secret in them",
    "commit": "hand in a signed revision",
    "mend": "store damaged or missing contents anew",
    "order": "hand in a signed order for a node",
    "stream": "one end of the stream that an order opens; what goes through is sealed between the two ends",
    "revoke": "hand in a signed revocation of a node's key",
    "make-token": "make a token that reads",
    "revoke-token": "end a token",
    "join": "enrol as a node with a signed invite",
    "check-in": "report as a node, and fetch what is new for it",
    "salvage": "hand signed revisions back to a hub that lost its ledger",
}

_EVERYBODY: frozenset[Kind] = frozenset(KINDS)
_READERS: frozenset[Kind] = frozenset({"viewer", "operator"})
_OPERATORS: frozenset[Kind] = frozenset({"operator"})
# Any key can be a founder's, but only while nothing is applied: what the first `apply` asks on its way, and all empty.
_FOUNDING: frozenset[Kind] = frozenset({"founder"})
_NODES: frozenset[Kind] = frozenset({"node"})

ALLOWED: Mapping[str, frozenset[Kind]] = {
    "health": _EVERYBODY,
    "describe": _EVERYBODY,
    "read-head": _READERS | _FOUNDING | _NODES,
    "read-status": _READERS | _FOUNDING,
    "read-applied": _READERS | _FOUNDING,
    "read-history": _READERS | _FOUNDING,
    "read-links": _READERS | _NODES,  # headers and trust: what an agent verifies, nothing of other nodes (D8)
    "read-content": _READERS,
    "read-own-content": _NODES,
    "read-observations": _READERS | _FOUNDING,
    "read-damage": _READERS | _FOUNDING,
    "read-nodes": _READERS,
    "read-orders": _READERS,
    "read-audit": _OPERATORS,  # names addresses and mistakes of people
    "read-tokens": _OPERATORS,
    "commit": _OPERATORS | _FOUNDING,  # judged by the signatures on the revision
    "mend": _OPERATORS,
    "order": _OPERATORS,
    "stream": _OPERATORS | _NODES,  # whoever gave the order, and the node it is for: hub/orders/relay.py
    "revoke": _OPERATORS,
    "make-token": _OPERATORS,
    "revoke-token": _OPERATORS,
    "join": frozenset({"joining", "node"}),  # a node that is known may enrol again (M-23)
    "check-in": frozenset({"node", "joining"}),  # an unknown key is told so and joins again (D-04)
    "salvage": frozenset({"node", "joining"}),  # such a hub knows nobody; every part proves itself by signatures
}

PUBLIC = frozenset(name for name, kinds in ALLOWED.items() if "anonymous" in kinds)


def may(principal: Principal, operation: str) -> HoldfastError | None:
    """None, or the refusal. An operation that nobody listed is refused to everybody (I-13)."""
    kinds = ALLOWED.get(operation, frozenset())
    if principal.kind in kinds:
        return None
    if principal.kind == "anonymous":
        return Unauthenticated(
            "this needs an identity, and the request proves none",
            remedy="use the holdfast command with your operator key (--key FILE), or send a token: "
            "holdfast token create",
        )
    allowed = ", ".join(f"{kind}s" for kind in KINDS if kind in kinds) or "nobody"
    return NotPermitted(
        f"{principal} may not do this ({operation}); it is for {allowed}",
        remedy="docs/reference/permissions.md shows who may do what; "
        + ("run holdfast as an operator of this fleet (--key FILE)" if "operator" in kinds else "nothing was changed"),
    )


def document() -> str:
    """The table as a page of the reference."""
    shown = [kind for kind in KINDS if any(kind in kinds for kinds in ALLOWED.values())]
    lines = [
        "# Permissions",
        "",
        "Who may do what at a hub, printed from `src/holdfast/trust/permissions.py` by",
        "`python -m holdfast.trust.permissions`; a test keeps the two equal. What is not marked is refused, and every",
        "refusal is a line in the hub's audit log. Revisions, orders, invites and revocations need operators'",
        "signatures besides: carrying one to the hub is a permission, what it may do is decided by who signed it.",
        "",
        "| kind | proves itself by |",
        "|---|---|",
        *(f"| {kind} | {PROOFS[kind]} |" for kind in shown),
        "",
        "| operation | what it is | " + " | ".join(shown) + " |",
        "|---|---|" + ":-:|" * len(shown),
    ]
    lines += [
        f"| `{name}` | {about} | " + " | ".join("✓" if kind in ALLOWED[name] else " " for kind in shown) + " |"
        for name, about in OPERATIONS.items()
    ]
    return "\n".join(lines) + "\n"


PROOFS: Mapping[Kind, str] = {
    "anonymous": "nothing",
    "founder": "a signed request while the hub has no revision yet",
    "viewer": "a token (`holdfast token create`), which expires and can be revoked",
    "operator": "a request signed by a session key (at most 12 h) that an operator's key certified",
    "joining": "a request signed by a node's key that the hub does not know (any more)",
    "node": "a request signed by the key of a node that joined and is in the applied revision",
    "hub": "the hub's key; agents meet it, hubs do not",
    "guest": "a guest's local token; agents meet it, hubs do not",
}


if __name__ == "__main__":
    import sys

    sys.stdout.write(document())
