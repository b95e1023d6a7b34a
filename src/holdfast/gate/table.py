"""The policy: for every act, provenance and state of data, the grade somebody must have signed with. Pure, complete."""

from collections.abc import Mapping
from itertools import product
from typing import Literal

from msgspec import Struct

from holdfast.gate.acts import Act, Data, Provenance
from holdfast.model.fleet import Grade

Need = Grade | Literal["nobody"]

Case = tuple[Act, Provenance, Data]


class Row(Struct, frozen=True):
    """Left empty, a column means: whatever it is. Rows never overlap; their order has no meaning."""

    acts: tuple[Act, ...]
    need: Need
    why: str
    provenance: tuple[Provenance, ...] = ()
    data: tuple[Data, ...] = ()

    def cases(self) -> list[Case]:
        return list(product(self.acts, self.provenance or Provenance, self.data or Data))


_MADE_FOR_NOW = (Provenance.OWN_TRANSACTION, Provenance.OWN_SCRATCH)
_OWN = (*_MADE_FOR_NOW, Provenance.OWN_EARLIER)
_NOT_MADE_HERE = (Provenance.FOREIGN, Provenance.UNKNOWN)
_LASTING = (Provenance.OWN_EARLIER, *_NOT_MADE_HERE)
_NO_LOSS = (Data.NOTHING, Data.EMPTY)
_LOSS = (Data.COPIED, Data.MAYBE_ONLY_COPY)

# Acts that take content away from a place.
_ENDING = (Act.DESTROY_DATA, Act.OVERWRITE_DATA, Act.DESTROY_GUEST)

ROWS: tuple[Row, ...] = (
    Row(
        (Act.PING, Act.CHECK_IN, Act.RENEW, Act.BACK_UP, Act.VERIFY, Act.DRILL),
        "nobody",
        "harmless, and on the closed list of what a hub may ask for (how often: trust/orders.py)",
    ),
    Row(
        (Act.CREATE, Act.START, Act.RESTART, Act.STOP, Act.ROUTE, Act.EXEC, Act.LOGS),
        "apply",
        "reversible, but it runs or ends somebody's program",
    ),
    Row((Act.REPLACE, Act.SET_ASIDE, Act.CLEAN_UP), "apply", "the data stays on this node"),
    Row((Act.RETIRE,), "apply", "made here; its data stays", provenance=_OWN),
    Row((Act.RETIRE,), "destroy", "labels are hints: not made here, so not ours to remove", provenance=_NOT_MADE_HERE),
    Row(
        (*_ENDING, Act.DESTROY_COPY),
        "nobody",
        "undoes what the same journaled operation made, or what this agent itself marked as scratch",
        provenance=_MADE_FOR_NOW,
    ),
    Row((*_ENDING, Act.DESTROY_COPY), "apply", "there is nothing to lose", provenance=_LASTING, data=_NO_LOSS),
    # A second copy elsewhere does not make the first one worthless: it is the one in use.
    Row(_ENDING, "destroy", "takes away data that lives here", provenance=_LASTING, data=_LOSS),
    Row(
        (Act.DESTROY_COPY,),
        "apply",
        "pruning as the applied revision says; another proven copy stays",
        provenance=(Provenance.OWN_EARLIER,),
        data=(Data.COPIED,),
    ),
    Row(
        (Act.DESTROY_COPY,),
        "destroy",
        "may be the last copy",
        provenance=(Provenance.OWN_EARLIER,),
        data=(Data.MAYBE_ONLY_COPY,),
    ),
    Row((Act.DESTROY_COPY,), "destroy", "a copy somebody else made", provenance=_NOT_MADE_HERE, data=_LOSS),
    Row((Act.ATTACH_DATA,), "apply", "made for this very purpose", provenance=_MADE_FOR_NOW),
    Row((Act.ATTACH_DATA,), "apply", "there is nothing to read or to spoil", provenance=_LASTING, data=_NO_LOSS),
    Row(
        (Act.ATTACH_DATA,),
        "destroy",
        "gives one service's data into another program's hands",
        provenance=_LASTING,
        data=_LOSS,
    ),
    Row((Act.DECOMMISSION,), "destroy", "the node no longer follows the fleet"),
    Row(
        (
            Act.SHRINK_RETENTION,
            Act.UNPROTECT_VOLUME,
            Act.LENGTHEN_INTERVAL,
            Act.CHANGE_CUSTODY,
            Act.DETACH_STORAGE,
            Act.REPOINT_STORAGE,
            Act.MOVE_VOLUME,
        ),
        "destroy",
        "loses copies later what a destroyed directory loses now",
    ),
    Row(
        (Act.LIFT_PROTECT, Act.RAISE_REMOVALS, Act.REMOVE_ORPHANS, Act.OPEN_DIRECT, Act.BREAK_GLASS),
        "destroy",
        "takes a guard away",
    ),
    Row((Act.REACH_HOST,), "destroy", "a guest that reaches the host reaches everybody's data"),
    Row(
        (Act.KEY_NODE, Act.WIDEN_RECIPIENTS, Act.WIDEN_POLICY, Act.DOWNGRADE),
        "destroy",
        "lets somebody in who was out",
    ),
    Row((Act.CHANGE_TRUST,), "root", "decides who decides"),
)


def expanded(rows: tuple[Row, ...]) -> Mapping[Case, Row]:
    return {case: row for row in rows for case in row.cases()}


TABLE: Mapping[Case, Row] = expanded(ROWS)
