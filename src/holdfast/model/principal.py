"""The principal of a request: one value for every kind of credential (V-06). Made where credentials are verified."""

from typing import Literal

from msgspec import Struct

from holdfast.model.fleet import Grade

# anonymous: proved nothing · founder: an operator of a fleet that has no revision yet · viewer: a token ·
# operator: a session certified by an operator's key · joining: the one-time key of an invite · node: an enrolled node
# hub: a hub's own key, as agents see it · guest: a guest's local token (agents only, later)
Kind = Literal["anonymous", "founder", "viewer", "operator", "joining", "node", "hub", "guest"]
KINDS: tuple[Kind, ...] = ("anonymous", "founder", "viewer", "operator", "joining", "node", "hub", "guest")


class Principal(Struct, frozen=True):
    """`name` is the operator, node or token; it comes from the credential, never from a body (I-12)."""

    kind: Kind
    name: str = ""
    key: str = ""  # the public line that proved it, or a token's id
    roles: tuple[str, ...] = ()  # of a node, from the applied revision (C-36)
    grade: Grade | None = None  # of an operator

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


ANONYMOUS = Principal("anonymous")
