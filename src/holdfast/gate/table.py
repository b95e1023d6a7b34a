"""The gate's policy: the grade needed for every act, provenance and state of data. Pure, complete."""

from collections.abc import Mapping
from itertools import product
from typing import Literal

from msgspec import Struct

from holdfast.gate.acts import Act, Data, Provenance
from holdfast.model.fleet import Grade

Need = Grade | Literal["none"]

Case = tuple[Act, Provenance, Data]


class Row(Struct, frozen=True):
    """An empty column matches every value. Rows never overlap; their order has no meaning."""

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

# Acts that remove content from a place.
_ENDING = (Act.DESTROY_DATA, Act.OVERWRITE_DATA, Act.DESTROY_GUEST)

ROWS: tuple[Row, ...] = (
    Row(
        (Act.PING, Act.CHECK_IN, Act.RENEW, Act.BACK_UP, Act.VERIFY, Act.DRILL),
        "none",
        "it is harmless, and on the closed list of what a hub may ask for (how often: trust/orders.py)",
    ),
    Row(
        (Act.CREATE, Act.START, Act.RESTART, Act.STOP, Act.ROUTE, Act.EXEC, Act.LOGS),
        "apply",
        "it is reversible, but starts or stops a program",
    ),
    Row((Act.RESYNC,), "apply", "it destroys nothing, and no order that was signed before it runs after it"),
    Row((Act.REPLACE, Act.SET_ASIDE, Act.CLEAN_UP, Act.FETCH), "apply", "the data stays on this node"),
    Row((Act.RETIRE,), "apply", "this agent made the container; its data stays", provenance=_OWN),
    Row((Act.RETIRE,), "destroy", "this agent did not make it; labels are no proof", provenance=_NOT_MADE_HERE),
    Row(
        (*_ENDING, Act.DESTROY_COPY),
        "none",
        "it undoes what the same journaled operation made, or removes what this agent marked as scratch",
        provenance=_MADE_FOR_NOW,
    ),
    Row((*_ENDING, Act.DESTROY_COPY), "apply", "there is nothing to lose", provenance=_LASTING, data=_NO_LOSS),
    # A second copy elsewhere does not replace the first one: that is the one in use.
    Row(_ENDING, "destroy", "it destroys data on this node", provenance=_LASTING, data=_LOSS),
    Row(
        (Act.DESTROY_COPY,),
        "apply",
        "the applied revision prunes it; another proven copy stays",
        provenance=(Provenance.OWN_EARLIER,),
        data=(Data.COPIED,),
    ),
    Row(
        (Act.DESTROY_COPY,),
        "destroy",
        "it may be the last copy",
        provenance=(Provenance.OWN_EARLIER,),
        data=(Data.MAYBE_ONLY_COPY,),
    ),
    Row((Act.DESTROY_COPY,), "destroy", "this agent did not make the copy", provenance=_NOT_MADE_HERE, data=_LOSS),
    Row((Act.ATTACH_DATA,), "apply", "the data was made for this purpose", provenance=_MADE_FOR_NOW),
    Row((Act.ATTACH_DATA,), "apply", "there is no data to read or to damage", provenance=_LASTING, data=_NO_LOSS),
    Row(
        (Act.ATTACH_DATA,),
        "destroy",
        "it gives one service's data to another program",
        provenance=_LASTING,
        data=_LOSS,
    ),
    Row((Act.MOUNT,), "apply", "this agent made the volume for this service", provenance=_OWN),
    Row((Act.MOUNT,), "apply", "there is no data to read or to damage", provenance=_NOT_MADE_HERE, data=_NO_LOSS),
    Row((Act.MOUNT,), "destroy", "this agent did not make the data", provenance=_NOT_MADE_HERE, data=_LOSS),
    Row((Act.MOUNT_STORAGE,), "apply", "the accepted revision attaches it, for which it needed grade destroy"),
    Row((Act.REVOKE_GRANT,), "destroy", "it ends connections of a running service; without an order only disuse does"),
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
        "it can lose copies of data later",
    ),
    Row(
        (Act.LIFT_PROTECT, Act.RAISE_REMOVALS, Act.REMOVE_ORPHANS, Act.OPEN_DIRECT, Act.BREAK_GLASS),
        "destroy",
        "it removes a protection",
    ),
    Row((Act.REACH_HOST,), "destroy", "a container with access to the host can read the data of every service"),
    Row(
        (Act.KEY_NODE, Act.WIDEN_RECIPIENTS, Act.WIDEN_POLICY, Act.DOWNGRADE),
        "destroy",
        "it gives access to a machine, key or release that had none",
    ),
    Row((Act.CHANGE_TRUST,), "root", "it changes who may sign"),
)


def expanded(rows: tuple[Row, ...]) -> Mapping[Case, Row]:
    return {case: row for row in rows for case in row.cases()}


TABLE: Mapping[Case, Row] = expanded(ROWS)
