"""The permission table of a hub: every operation and every kind of principal. Pure; anything else is denied.

The table decides by the *kind* of a principal. That a node acts only for itself (I-12), and that a revision or an
order has the signatures it needs, is checked where the request is carried out: by who signed it, not by who sent it.
"""

from collections.abc import Mapping

from holdfast.errors import HoldfastError, NotPermitted, Unauthenticated
from holdfast.model.principal import KINDS, Kind, Principal

OPERATIONS: Mapping[str, str] = {
    "health": "ask if the process answers",
    "describe": "read the description of the HTTP interface",
    "read-head": "number and digest of the revision served",
    "read-status": "the status of the hub",
    "read-applied": "the whole revision served",
    "read-history": "records of revisions, and the text that was signed",
    "read-links": "the chain of revisions as a verifier needs it",
    "read-content": "any content by its digest",
    "read-own-content": "contents that the caller's own manifest names",
    "read-observations": "the last observed state of nodes",
    "read-damage": "contents that are damaged or missing",
    "read-nodes": "every node with its health, pulse and report",
    "read-orders": "orders and their results",
    "read-audit": "the audit log of the hub or of a node",
    "read-tokens": "the list of tokens, without their secrets",
    "commit": "submit a signed revision",
    "mend": "store damaged or missing contents again",
    "order": "submit a signed order for a node",
    "stream": "one end of the stream that an order opens; the two ends encrypt what it carries",
    "revoke": "submit a signed revocation of a node's key",
    "make-token": "create a read-only token",
    "revoke-token": "end a token",
    "join": "enrol as a node with a signed invite",
    "check-in": "report as a node, and fetch what is new for it",
    "salvage": "send signed revisions back to a hub that lost its ledger",
}

_EVERYBODY: frozenset[Kind] = frozenset(KINDS)
_READERS: frozenset[Kind] = frozenset({"viewer", "operator"})
_OPERATORS: frozenset[Kind] = frozenset({"operator"})
# Any key can be a founder's, but only while nothing is applied: what the first `apply` reads on its way, all empty.
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
    "stream": _OPERATORS | _NODES,  # the operator who gave the order, and the node it is for: hub/orders/relay.py
    "revoke": _OPERATORS,
    "make-token": _OPERATORS,
    "revoke-token": _OPERATORS,
    "join": frozenset({"joining", "node"}),  # a node that is known may enrol again (M-23)
    "check-in": frozenset({"node", "joining"}),  # the answer to an unknown key makes it join again (D-04)
    "salvage": frozenset({"node", "joining"}),  # such a hub knows no nodes; signatures prove every part
}

PUBLIC = frozenset(name for name, kinds in ALLOWED.items() if "anonymous" in kinds)


def may(principal: Principal, operation: str) -> HoldfastError | None:
    """None, or the refusal. An operation that is not listed is refused for every principal (I-13)."""
    kinds = ALLOWED.get(operation, frozenset())
    if principal.kind in kinds:
        return None
    if principal.kind == "anonymous":
        return Unauthenticated(
            "this operation needs a credential, and the request has none",
            remedy="use the holdfast command with your operator key (--key FILE), or send a token: "
            "holdfast token create",
        )
    allowed = ", ".join(f"{kind}s" for kind in KINDS if kind in kinds) or "no principal"
    return NotPermitted(
        f"{principal} may not do this ({operation}); allowed are {allowed}",
        remedy="see docs/reference/permissions.md; "
        + ("run holdfast as an operator of this fleet (--key FILE)" if "operator" in kinds else "nothing was changed"),
    )


def document() -> str:
    """The table as a page of the reference."""
    shown = [kind for kind in KINDS if any(kind in kinds for kinds in ALLOWED.values())]
    lines = [
        "# Permissions",
        "",
        "Who may do what at a hub. Printed from `src/holdfast/trust/permissions.py` by",
        "`python -m holdfast.trust.permissions`; a test keeps the two equal. An operation without a mark is refused,",
        "and the hub's audit log records every refusal. Revisions, orders, invites and revocations also need the",
        "signatures of operators: this table says who may send one to the hub, its signatures decide what it may do.",
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
    "hub": "the hub's key; used towards agents, not towards hubs",
    "guest": "a guest's local token; used towards agents, not towards hubs",
}


if __name__ == "__main__":
    import sys

    sys.stdout.write(document())
