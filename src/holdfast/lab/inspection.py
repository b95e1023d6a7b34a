"""What a lab consists of now: each node with its running processes and directories."""

from collections.abc import Mapping

from holdfast.lab import control, processes
from holdfast.lab import record as records
from holdfast.lab.blueprint import Blueprint, Site
from holdfast.lab.place import Place
from holdfast.model.lab import LabNode, LabStatus

# Programs that a node's agent runs, and their names in `lab status`.
PROGRAMS = {"envoy": "proxy", "dnsmasq": "dns"}


def status(place: Place, blueprint: Blueprint) -> LabStatus:
    served = processes.by_program(PROGRAMS)
    return LabStatus(blueprint.registry, tuple(_node(place, site, served) for site in blueprint.sites))


def _node(place: Place, site: Site, served: Mapping[str, Mapping[str, int]]) -> LabNode:
    """The lab recorded the processes it started; those of an agent are found in the node's process list."""
    parts = {"node": f"{site.name}.node", "agent": control.agent_part(site)}
    if "hub" in site.roles:
        parts["hub"] = control.HUB
    known = {name: records.part(place, part) for name, part in parts.items()}
    pids = {name: process.pid for name, process in known.items() if process and processes.lives(process)}
    if "node" in pids:
        found = served.get(processes.namespace(pids["node"], "pid"), {})
        pids |= {PROGRAMS[program]: pid for program, pid in sorted(found.items(), reverse=True)}
    return LabNode(site.name, site.roles, site.address, pids, place.node(site.name))
