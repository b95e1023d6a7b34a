"""Who may do what at a hub: every operation of the routes and every kind of caller. What is not here is denied.

Permission depends on the *kind* of a principal. That a node acts for itself alone (I-12), that a revision or an order
has the signatures it needs, is decided by the handler, by what was signed and never by who carried it.
"""

from collections.abc import Mapping

from holdfast.errors import HoldfastError, NotPermitted, Unauthenticated
from holdfast.hub.http.handlers import (
    audit,
    backups,
    commits,
    description,
    hub_file,
    moves,
    nodes,
    orders,
    revisions,
    revocations,
    status,
    streams,
    tokens,
)
from holdfast.model.principal import KINDS, Kind, Principal

# In the order of the page: public ones, reading, what operators do, what nodes do. Each has its row beside its handler.
_LISTED = (
    description.HEALTH,
    description.DESCRIBE,
    revisions.READ_HEAD,
    status.READ_STATUS,
    revisions.READ_APPLIED,
    revisions.READ_HISTORY,
    revisions.READ_LINKS,
    revisions.READ_CONTENT,
    nodes.READ_OWN_CONTENT,
    status.READ_OBSERVATIONS,
    status.READ_DAMAGE,
    nodes.READ_NODES,
    orders.READ_ORDERS,
    audit.READ_AUDIT,
    tokens.READ_TOKENS,
    commits.COMMIT,
    commits.MEND,
    orders.ORDER,
    orders.CANCEL,
    streams.STREAM,
    revocations.REVOKE,
    tokens.MAKE_TOKEN,
    tokens.REVOKE_TOKEN,
    nodes.JOIN,
    nodes.CHECK_IN,
    nodes.SALVAGE,
    backups.READ,
    backups.WRITE,
    backups.DELETE,
    moves.HAND_OVER,
    hub_file.COPY,
)
OPERATIONS: Mapping[str, str] = {operation.name: operation.about for operation in _LISTED}
ALLOWED: Mapping[str, frozenset[Kind]] = {operation.name: operation.kinds for operation in _LISTED}
PUBLIC = frozenset(name for name, kinds in ALLOWED.items() if "anonymous" in kinds)


def may(principal: Principal, operation: str) -> HoldfastError | None:
    """None, or the refusal. An operation that is not listed is refused to every caller (I-13)."""
    kinds = ALLOWED.get(operation, frozenset())
    if principal.kind in kinds:
        return None
    if principal.kind == "anonymous":
        return Unauthenticated(
            "this needs an identity, and the request proves none",
            remedy="use the holdfast command with your operator key (--key FILE), or send a token: "
            "holdfast token create",
        )
    allowed = ", ".join(f"{kind}s" for kind in KINDS if kind in kinds) or "no kind of caller"
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
        "Who may do what at a hub, printed from the routes in `src/holdfast/hub/http/handlers/` by",
        "`python -m holdfast.hub.http.permissions`; a test keeps the two equal. What is not marked is refused, and",
        "every refusal is a line in the hub's audit log. Revisions, orders, invites and revocations need operators'",
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
