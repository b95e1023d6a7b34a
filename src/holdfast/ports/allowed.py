"""The permission of the gate for one act on one thing. Every verb that mounts, starts, stops, removes, overwrites or
deletes takes one, and its adapter checks that it fits."""

from msgspec import Struct

from holdfast.errors import NotPermitted


class Allowed(Struct, frozen=True):
    """Proof that the gate allowed this. Only gate/decide.py makes it."""

    act: str  # the name of an act of gate/acts.py
    thing: str  # what may be touched, as the verb names it: a container, a network, the path of a mount, `data.web`


def check(allowed: Allowed, acts: frozenset[str], thing: str) -> None:
    """The gate has decided already; this check prevents that the permission is used for something else."""
    if allowed.act not in acts or allowed.thing != thing:
        raise NotPermitted(
            f"the gate allowed {allowed.act} of {allowed.thing}, which does not permit this to be done to {thing}",
            remedy="report this, with `holdfast agent journal` of the node",
            code="not_allowed",
        )
