"""Check overlay, proxies, DNS and the public authority by the rules of planning. Pure."""

from holdfast.declared import spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.words import shown
from holdfast.model.fleet import FleetDocument, FleetFile
from holdfast.planning import infrastructure


def check(file: FleetFile, known: frozenset[str], flaws: Flaws) -> None:
    """`known`: names of nodes, including refused ones."""
    document = FleetDocument(file.fleet, backups=file.backups, acme=file.acme, dns=file.dns, overlay=file.overlay)
    for complaint in infrastructure.fleet_complaints(document):
        flaws.add_checked(FLEET_FILE, complaint.at, complaint.what, complaint.remedy)
    for at, node in enumerate(file.nodes):
        for complaint in infrastructure.node_complaints(node, file.fleet, file.overlay):
            flaws.add_checked(FLEET_FILE, ("nodes", at, *complaint.at), complaint.what, complaint.remedy)
    for index, name in infrastructure.unknown_servers(file.dns, known):
        remedy = spelling.question(name, known) or "add it to [[nodes]]"
        flaws.add_checked(FLEET_FILE, ("dns", "nodes", index), f"there is no node {shown(name)}", remedy)
