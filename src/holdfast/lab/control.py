"""The lab's control plane: its fleet directory, hub and agents, run with the product's own commands."""

import os
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from holdfast.errors import Failed, Unreachable
from holdfast.lab import cli_call, fleet_file, node, processes, record
from holdfast.lab.blueprint import HUB_PORT, MARK, Blueprint, Site
from holdfast.lab.cli_call import HOLDFAST
from holdfast.lab.place import Place
from holdfast.lab.processes import NODE_MARK

HUB = "hub"  # the name of the hub's process; an agent's is NODE.agent
LISTENING_S_MAX = 15.0
HEALTHY_S_MAX = 60.0
RECORDED_S_MAX = 20.0
FLEET_NAME = "lab"


def variables(place: Place, blueprint: Blueprint) -> dict[str, str]:
    """What `lab env` prints; the state directory is the lab's own, so that the user's home stays unchanged."""
    return {
        "HOLDFAST_HUB": blueprint.hub_url,
        "HOLDFAST_KEY": place.key,
        "HOLDFAST_FLEET": place.fleet,
        "HOLDFAST_STATE": place.memory,
        "HOLDFAST_IDENTITY": cli_call.identity(place),
    }


def environment(place: Place, blueprint: Blueprint) -> dict[str, str]:
    return {**cli_call.environment(place), **variables(place, blueprint)}


def agent_part(site: Site) -> str:
    return f"{site.name}.agent"


# ---- creating -------------------------------------------------------------------------------------------------------


def lay_out(place: Place) -> str:
    """An empty fleet directory and its operator's key; returns the digest of its trust."""
    words = ["init", place.fleet, "--key", place.key, "--name", FLEET_NAME, "--operator", "operator", "--yes"]
    founded = cli_call.ask(words, cli_call.environment(place))
    for name in os.listdir(os.path.join(place.fleet, "services")):
        os.unlink(os.path.join(place.fleet, "services", name))
    return str(founded["trust"])


def make_hub(place: Place, blueprint: Blueprint, trust: str) -> None:
    """An empty ledger on the hub's node, its key in fleet.toml."""
    init = running(place, blueprint.hub)
    names = [word for name in (blueprint.hub.address, blueprint.hub.name) for word in ("--name", name)]
    env = node.environment(blueprint, blueprint.hub)
    made = cli_call.ask(["hub", "init", "--trust", trust, *names], env, inside=node.entering(init))
    path = os.path.join(place.fleet, "fleet.toml")
    with open(path, encoding="utf-8") as file:
        written = file.read()
    record.replace(path, fleet_file.settled(written, blueprint, made["hub_key"]).encode(), 0o644)


def enrol(place: Place, blueprint: Blueprint, site: Site) -> None:
    """Invite the node, join it, and start its agent."""
    token = cli_call.ask(["node", "invite", site.name, "--yes"], environment(place, blueprint))["token"]
    init = running(place, site)
    env = node.environment(blueprint, site)
    words = ["agent", "join", "-", "--address", site.address, "--json"]
    cli_call.call(words, env, inside=node.entering(init), given=token)
    start_agent(place, blueprint, site)


def apply(place: Place, blueprint: Blueprint) -> None:
    cli_call.call(["apply", "--yes", "--json"], environment(place, blueprint))


# ---- parts ----------------------------------------------------------------------------------------------------------


def start_hub(place: Place, blueprint: Blueprint, pace: str) -> None:
    """Returns once it listens. A killed hub may hold the port for a moment until its last thread has ended."""
    init = running(place, blueprint.hub)
    if not processes.wait_for(lambda: not _listens(blueprint), LISTENING_S_MAX):
        raise Failed(
            f"another process already listens on {blueprint.hub.address}:{HUB_PORT}",
            remedy="`holdfast lab kill hub`, then `holdfast lab start hub`",
            code="address_in_use",
        )
    listen = f"{blueprint.hub.address}:{HUB_PORT}"
    words = [*HOLDFAST, "hub", "run", "--listen", listen, "--pace", pace, "--alert-network", blueprint.host_address]
    hub = node.launch(place, init, HUB, words, node.environment(blueprint, blueprint.hub))
    log = place.log(HUB)
    listening = processes.wait_for(lambda: not processes.lives(hub) or _listens(blueprint), LISTENING_S_MAX)
    if not processes.lives(hub):
        raise Failed(f"the hub ended at once: {node.last_words(log)}", remedy=f"read {log}", code="part_ended")
    if not listening:
        raise Failed(f"the hub is not listening: {node.last_words(log)}", remedy=f"read {log}", code="part_ended")


def _listens(blueprint: Blueprint) -> bool:
    try:
        socket.create_connection((blueprint.hub.address, HUB_PORT), timeout=1).close()
    except OSError:
        return False
    return True


def start_agent(place: Place, blueprint: Blueprint, site: Site) -> None:
    init = running(place, site)
    words = [*HOLDFAST, "agent", "run", "--alert-network", blueprint.host_address]
    node.launch(place, init, agent_part(site), words, node.environment(blueprint, site))


def part_lives(place: Place, part: str) -> bool:
    return processes.lives(record.part(place, part))


def end_part(place: Place, part: str) -> None:
    process = record.part(place, part)
    processes.end(lambda: [process.pid] if process is not None and processes.lives(process) else [])


def running(place: Place, site: Site) -> int:
    init = node.init_of(place, site)
    if init is None:
        raise Failed(f"node {site.name} is not running", remedy=f"holdfast lab start {site.name}", code="node_down")
    return init.pid


# ---- health ---------------------------------------------------------------------------------------------------------


def await_healthy(place: Place, blueprint: Blueprint) -> None:
    """Wait until the hub reports every node as healthy."""
    give_up_s = time.monotonic() + HEALTHY_S_MAX
    said: Mapping[str, str] = {}
    while time.monotonic() < give_up_s:
        said = health(place, blueprint)
        waiting = {site.name: said.get(site.name, "unknown") for site in blueprint.sites}
        if all(status == "healthy" for status in waiting.values()):
            return
        for site in blueprint.sites:
            part = agent_part(site)
            if not part_lives(place, part):
                log = place.log(part)
                raise Failed(f"{part} ended: {node.last_words(log)}", remedy=f"read {log}", code="part_ended")
        time.sleep(0.3)  # each query is a process, which slows down the starting agents
    bad = ", ".join(f"{name} is {status}" for name, status in waiting.items() if status != "healthy")
    raise Unreachable(
        f"not every node is healthy after {HEALTHY_S_MAX:.0f} s: {bad}",
        remedy="`holdfast lab status`; `holdfast lab heal` if nodes are cut; read the logs in the lab's directory",
        code="nodes_missing",
    )


def record_identities(place: Place, blueprint: Blueprint) -> None:
    """Apply until keys and issuing certificates are in the signed revision; a node has one after its first revision."""
    give_up_s = time.monotonic() + RECORDED_S_MAX
    while True:
        apply(place, blueprint)
        bundle = cli_call.ask(["ca", "bundle"], environment(place, blueprint))
        missing = {site.name for site in blueprint.sites} - {entry["node"] for entry in bundle["certificates"]}
        if not missing:
            return
        if time.monotonic() > give_up_s:
            raise Unreachable(
                f"no certificate from {', '.join(sorted(missing))} after {RECORDED_S_MAX:.0f} s",
                remedy="`holdfast ca bundle` shows the reason; read the logs in the lab's directory",
                code="nodes_missing",
            )
        time.sleep(0.1)


def keep_bundle(place: Place, blueprint: Blueprint) -> None:
    """Store the nodes' authorities and the hub's certificate, both or nothing: a stored bundle never shrinks."""
    authorities = cli_call.call(["ca", "bundle"], environment(place, blueprint))
    with open(os.path.join(place.node(blueprint.hub.name)["state"], "hub", "hub.crt"), encoding="ascii") as file:
        record.replace(place.bundle, (authorities + file.read()).encode(), 0o644)


def health(place: Place, blueprint: Blueprint) -> dict[str, str]:
    """Status by node; a healthy node that has accepted no revision yet is "new"."""
    listed = cli_call.ask(["node", "list"], environment(place, blueprint))["nodes"]
    return {
        entry["name"]: entry["status"] if entry["accepted"] or entry["status"] != "healthy" else "new"
        for entry in listed
    }


def in_parallel(works: list[Callable[[], None]]) -> None:
    """Wait for all of them; then raise the first error."""
    with ThreadPoolExecutor(max_workers=max(1, len(works))) as pool:
        futures = [pool.submit(work) for work in works]
    for future in futures:
        future.result()


def caller_environment(place: Place, blueprint: Blueprint, site: Site) -> dict[str, str]:
    """The caller's environment, so that scripts also work inside; PATH always includes holdfast."""
    own = node.environment(blueprint, site)
    path = f"{os.environ.get('PATH', own['PATH'])}:{os.path.dirname(HOLDFAST[0])}"
    marks = {name: own[name] for name in (MARK, NODE_MARK)}
    podman = {name: value for name, value in own.items() if name.startswith("CONTAINERS_")}
    return {**os.environ, **podman, **marks, **variables(place, blueprint), "PATH": path}
