"""Make contents of the applied revision again, which a ledger has lost. Pure."""

from collections.abc import Set

from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.planning.kinds.every import documents
from holdfast.planning.manifests import compile_manifests


def contents(wanted: Set[str], fleet: Fleet, applied: Applied) -> dict[str, bytes]:
    """By digest; only those that can be made.

    Manifests follow from the table alone, so they can be compiled again even if the directory has changed.
    """
    manifests = compile_manifests(applied.fleet_id, applied.table)
    found = [*documents(fleet).values(), *fleet.secrets.values(), *manifests.values()]
    texts: dict[str, bytes] = {canonical.digest(text): text for text in found}
    return {digest: texts[digest] for digest in wanted if digest in texts}
