"""After a crash: every operation under way is resumed from its steps or settled as failed, before anything new.

A table says which; a test keeps it complete.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.membership import Membership
from holdfast.agent.orders.actions import Act
from holdfast.agent.orders.orders import Orders, unpacked
from holdfast.agent.world import World
from holdfast.errors import HoldfastError
from holdfast.model.audit import Event
from holdfast.model.journal import JournalEntry
from holdfast.model.order import OrderResult, VerifiedOrder
from holdfast.trust import orders as rules


class Way(Struct, frozen=True):
    how: Literal["resume", "compensate"]
    why: str


WAYS: Mapping[str, Way] = {
    "ping": Way("compensate", "whoever asked has long gone"),
    "check-in": Way("compensate", "every start sends a report"),
    "renew-certificate": Way("compensate", "a start looks at certificates by itself"),
    "deploy": Way("compensate", "the next pass goes on from what is there"),
    "retire": Way("compensate", "the next pass goes on from what is there"),
    "restart": Way("compensate", "what did not come up again is started by the next pass"),
    "stop": Way("resume", "what was to be held is held"),
    "start": Way("compensate", "a hold that was lifted is lifted; the next pass starts what it held"),
    "force-cleanup": Way("resume", "half removed is what nobody asked for"),
    "purge": Way("resume", "half destroyed is of use to nobody; what was condemned is known by the order's id"),
}


def settle(world: World, membership: Membership, accepting: Accepting, orders: Orders) -> int:
    """How many operations were found under way. What is resumed runs in its lane, like anything else."""
    found = list(world.journal.unfinished())
    for entry in found:
        way = WAYS.get(entry.operation.kind)
        proof = _proof(entry, membership, accepting) if way is not None and way.how == "resume" else None
        world.say("resumed" if proof else "settled", {"operation": entry.operation.id, "kind": entry.operation.kind})
        if proof is not None:
            orders.resume(Act(entry.operation, proof, entry.steps))
        else:
            _compensate(world, entry, way, orders)
    return len(found)


def _proof(entry: JournalEntry, membership: Membership, accepting: Accepting) -> VerifiedOrder | None:
    """Verified again, at the moment it was taken: it was good then, or the journal would not know it."""
    signed = unpacked(entry.operation.arguments)
    if signed is None or accepting.trust is None:
        return None
    try:
        return rules.verify(signed, membership.fleet, membership.node, accepting.trust, entry.operation.begun_s)
    except HoldfastError:
        return None


def _compensate(world: World, entry: JournalEntry, way: Way | None, orders: Orders) -> None:
    operation = entry.operation
    why = way.why if way is not None else "this release does not know how to go on with it"
    message = f"the agent was interrupted while it did this: {why}"
    result = None
    if operation.order:
        result = OrderResult(
            operation.order,
            operation.attempt,
            "failed",
            "interrupted",
            message,
            "look at it (holdfast agent journal), then order it again if it is still wanted",
            world.clock.now_s(),
        )
    world.journal.finish(operation.id, "compensated", result)
    if result is not None:
        orders.answers.keep(result, operation.attempt)
        orders.answers.proven(result)
    world.audit.append(Event("agent", operation.kind, operation.lane, "failed", message, operation.order))
