"""What must hold of a gate, written from design.md §2 and not from its table: no complaint, or it is too weak."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from holdfast.gate import authority
from holdfast.gate.acts import ACT_OF, Act, Data, Provenance
from holdfast.gate.authority import UNSIGNED, Authority
from holdfast.gate.facts import NO_THING, Facts
from holdfast.model.order import ACTIONS
from holdfast.model.trust import GRADES, RANK
from holdfast.trust import orders
from tests.fleets.orders import ANN_SIGNER, BOB_SIGNER, FLEET, NODE, NOW_S, TRUST, purge, signed

# The right column of design.md §2, which no data on a disk and no provenance makes harmless.
ALWAYS_DESTROY = {
    Act.DECOMMISSION,
    Act.SHRINK_RETENTION,
    Act.UNPROTECT_VOLUME,
    Act.LENGTHEN_INTERVAL,
    Act.CHANGE_CUSTODY,
    Act.DETACH_STORAGE,
    Act.REPOINT_STORAGE,
    Act.MOVE_VOLUME,
    Act.LIFT_PROTECT,
    Act.RAISE_REMOVALS,
    Act.REMOVE_ORPHANS,
    Act.OPEN_DIRECT,
    Act.BREAK_GLASS,
    Act.REVOKE_GRANT,
    Act.REACH_HOST,
    Act.KEY_NODE,
    Act.WIDEN_RECIPIENTS,
    Act.WIDEN_POLICY,
    Act.DOWNGRADE,
}
TAKES_CONTENT = {Act.DESTROY_DATA, Act.OVERWRITE_DATA, Act.DESTROY_GUEST, Act.DESTROY_COPY, Act.ATTACH_DATA}
HUBS_OWN = {ACT_OF[name] for name, rule in ACTIONS.items() if rule.hub_may}
OWN_NOW = {Provenance.OWN_TRANSACTION, Provenance.OWN_SCRATCH}
AUTHORITIES: tuple[Authority, ...] = (UNSIGNED, *(Authority(grade, None, 7, "service.web") for grade in GRADES))


def proof(action: str, target: str) -> Authority:
    signers = (ANN_SIGNER, BOB_SIGNER)
    return authority.by_order(
        orders.verify(signed(purge(action=action, target=target), *signers), FLEET, NODE, TRUST, NOW_S)
    )


def expected(act: Act, provenance: Provenance, data: Data) -> str:
    """The lowest grade, by the rules as people say them; the table says the same in another form."""
    if act is Act.CHANGE_TRUST:
        return "root"
    if act in ALWAYS_DESTROY:
        return "destroy"
    if act in HUBS_OWN:
        return "none"
    if act in TAKES_CONTENT:
        return _content(act, provenance, data)
    if act is Act.MOUNT and provenance in (Provenance.FOREIGN, Provenance.UNKNOWN):
        return "apply" if data in (Data.NOTHING, Data.EMPTY) else "destroy"
    if act is Act.RETIRE and provenance in (Provenance.FOREIGN, Provenance.UNKNOWN):
        return "destroy"
    return "apply"


def _content(act: Act, provenance: Provenance, data: Data) -> str:
    if provenance in OWN_NOW:
        return "apply" if act is Act.ATTACH_DATA else "none"
    if data in (Data.NOTHING, Data.EMPTY):
        return "apply"
    prunes = act is Act.DESTROY_COPY and provenance is Provenance.OWN_EARLIER and data is Data.COPIED
    return "apply" if prunes else "destroy"


def deciding(gate: Any) -> Iterator[str]:
    """Every combination there is, with every authority there is."""
    for act, provenance, data, word in product(Act, Provenance, Data, AUTHORITIES):
        need = expected(act, provenance, data)
        enough = need == "none" or (word.grade is not None and RANK[word.grade] >= RANK[need])  # type: ignore[index]
        deed = gate.Deed(act, "service.web", NODE, Facts(provenance, data), word)
        answer = gate.decide(deed)
        if isinstance(answer, gate.Allowed) is not enough:
            yield f"{act.name}, {provenance.name}, {data.name}, {word.grade}: {type(answer).__name__}"
        elif not enough and not (answer.grade == need and answer.sign.startswith("holdfast ") and answer.reason):
            yield f"{act.name}: parked without a grade, a reason or a command"


def ordering(gate: Any) -> Iterator[str]:
    """An order is good for its act, its target and its node, and for nothing else."""
    lost = Facts(Provenance.FOREIGN, Data.MAYBE_ONLY_COPY)
    word = proof("purge", "data.web")
    for act, target, node, allowed in [
        (Act.DESTROY_DATA, "data.web", NODE, True),
        (Act.DESTROY_DATA, "data.db", NODE, False),
        (Act.DESTROY_DATA, "service.web", NODE, False),
        (Act.DESTROY_DATA, "data.web", "w2", False),
        (Act.OVERWRITE_DATA, "data.web", NODE, False),
        (Act.DESTROY_GUEST, "data.web", NODE, False),
        (Act.DESTROY_COPY, "data.web", NODE, False),
        (Act.CHANGE_TRUST, "data.web", NODE, False),
        (Act.LIFT_PROTECT, "data.web", NODE, False),
    ]:
        answer = gate.decide(gate.Deed(act, target, node, lost, word))
        if isinstance(answer, gate.Allowed) is not allowed:
            yield f"a purge of data.web lets {act.name} {target} on {node}: {type(answer).__name__}"
        elif not allowed and act is Act.DESTROY_DATA and "its own order" not in answer.reason:
            yield "it does not say that the order is for something else"
    ping = proof("ping", "node.w1")
    if not isinstance(gate.decide(gate.Deed(Act.DESTROY_DATA, "data.web", NODE, lost, ping)), gate.Park):
        yield "a ping destroys data"


def signing(gate: Any) -> Iterator[str]:
    """Every parked deed names the command that signs it."""
    lost = Facts(Provenance.FOREIGN, Data.MAYBE_ONLY_COPY)
    wanted = {
        (Act.DESTROY_DATA, "data.web"): "holdfast order sign --node w1 --action purge --target data.web --submit",
        (Act.RESTART, "service.web"): "holdfast order sign --node w1 --action restart --target service.web --submit",
        (Act.DECOMMISSION, "node.w1"): "holdfast order sign --node w1 --action decommission --target node.w1 --submit",
        (Act.LIFT_PROTECT, "service.web"): _REVISION,
        (Act.DESTROY_DATA, "service.web"): _REVISION,  # no purge has such a target
    }
    for (act, target), command in wanted.items():
        answer = gate.decide(gate.Deed(act, target, NODE, lost, UNSIGNED))
        if not isinstance(answer, gate.Park) or answer.sign != command:
            yield f"{act.name} {target} is signed by: {getattr(answer, 'sign', 'nothing')}"
        elif "and has none" not in answer.reason:
            yield "it does not say that there is no signature"
    low = gate.decide(gate.Deed(Act.LIFT_PROTECT, "service.web", NODE, NO_THING, AUTHORITIES[1]))
    if not isinstance(low, gate.Park) or "was signed with grade apply" not in low.reason:
        yield "it does not say with which grade it came"
    short = proof("ping", "node.w1")
    answer = gate.decide(gate.Deed(Act.CHANGE_TRUST, "node.w1", NODE, NO_THING, short))
    if not isinstance(answer, gate.Park) or "was signed with grade apply" not in answer.reason:
        yield "an order of too low a grade is not said to be so"


def covering(gate: Any) -> Iterator[str]:
    """The accepted revision is an authority over one address, with its data and copies; a permission names the act and
    the thing that is touched."""
    for target, address, allowed in [
        ("service.web", "service.web", True),
        ("data.web", "service.web", True),
        ("checkpoint.web.1", "service.web", True),
        ("node.w1", "node.w1", True),
        ("service.web", "service.db", False),
        ("data.web", "service.db", False),
        ("data.web", "data.web", False),
        ("checkpoint.web.1", "service.db", False),
        ("node.w1", "service.web", False),
        ("service.web", "", False),
    ]:
        word = Authority("destroy", None, 7, address)
        answer = gate.decide(gate.Deed(Act.STOP, target, NODE, NO_THING, word, "the container"))
        if isinstance(answer, gate.Allowed) is not allowed:
            yield f"the signatures about {address!r} let {target} be stopped: {type(answer).__name__}"
        elif allowed and (answer.act, answer.thing) != ("STOP", "the container"):
            yield f"it permits {answer.act} of {answer.thing}"
        elif not allowed and "were asked about" not in answer.reason:
            yield "it does not say what the signatures are about"
    for need, act in (("none", Act.PING), ("apply", Act.STOP)):
        answer = gate.decide(gate.Deed(act, "service.web", NODE, NO_THING, AUTHORITIES[1]))
        if not isinstance(answer, gate.Allowed) or (answer.act, answer.thing) != (act.name, "service.web"):
            yield f"without a thing, a permission that needs {need} does not name its target"


_REVISION = "holdfast plan -o change.plan && holdfast sign change.plan --key KEY && holdfast apply change.plan"


def complaints(gate: Any) -> list[str]:
    return [*deciding(gate), *ordering(gate), *covering(gate), *signing(gate)]
