"""Check storage targets: each has what its kind needs, and only nodes that exist. Pure."""

from collections.abc import Collection, Sequence

from holdfast.declared import spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.words import shown
from holdfast.model.fleet import Storage
from holdfast.planning import storage


def check(targets: Sequence[Storage], nodes: Collection[str], flaws: Flaws) -> None:
    for at, target in enumerate(targets):
        if flaws.touch(FLEET_FILE, ("storage", at)):
            continue
        for one in storage.complaints(target):
            flaws.add_checked(FLEET_FILE, ("storage", at, *one.at), one.what, one.remedy)
        for index, name in enumerate(target.nodes):
            if name not in nodes:
                remedy = spelling.question(name, nodes) or "add it to [[nodes]]"
                what = f"there is no node {shown(name)}"
                flaws.add_checked(FLEET_FILE, ("storage", at, "nodes", index), what, remedy)
    for at, one in storage.quarrels(targets):
        flaws.add_checked(FLEET_FILE, ("storage", at, *one.at), one.what, one.remedy)
