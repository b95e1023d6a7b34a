"""Create a lab step by step; independent steps run in parallel."""

import os
import time
from collections.abc import Callable
from functools import partial

from holdfast.errors import Conflict, Invalid
from holdfast.lab import blueprint as blueprints
from holdfast.lab import (
    control,
    network,
    node,
    podman_files,
    prerequisites,
    record,
    registry,
    roster,
    samples,
    subnet,
)
from holdfast.lab.blueprint import Blueprint, Site
from holdfast.lab.control import in_parallel
from holdfast.lab.oci_image import Image
from holdfast.lab.place import Place
from holdfast.lab.record import Record
from holdfast.lab.sweep import sweep

Say = Callable[[str], None]


def up(place: Place, nodes: str, bare: bool, say: Say) -> None:
    prerequisites.check(place, nodes)
    with record.locked(place):
        _up(place, roster.parse(nodes), bare, say)


def _up(place: Place, seats: tuple[roster.Seat, ...], bare: bool, say: Say) -> None:
    found = record.read(place)
    if found is not None and found.phase == "up" and _bridge_is_there(found.blueprint):
        _complete(place, found, seats, say)
        return
    if found is not None:
        say("removing the rest of an incomplete lab")
        sweep(place, found.blueprint, keep_lock=True)
    elif taken := [path for path in place.contents() if os.path.lexists(path) and path != place.lock]:
        raise Conflict(
            f"{taken[0]} already exists and belongs to no lab",
            remedy="choose another directory with --dir, or move it away",
            code="already_exists",
        )
    _make(place, seats, bare, say)


def _bridge_is_there(blueprint: Blueprint) -> bool:
    return blueprint.bridge in os.listdir(network.LINKS)


def _complete(place: Place, found: Record, seats: tuple[roster.Seat, ...], say: Say) -> None:
    """A running lab stays unchanged; its killed parts are started."""
    wanted = [(seat.name, seat.roles) for seat in seats]
    if wanted != [(site.name, site.roles) for site in found.blueprint.sites]:
        there = ",".join(f"{site.name}:{'+'.join(site.roles)}" for site in found.blueprint.sites)
        raise Conflict(
            f"a lab with other nodes is up in {place.root}: {there}",
            remedy="`holdfast lab down` first, or choose another directory with --dir",
            code="already_exists",
        )
    for site in sorted(found.blueprint.sites, key=lambda site: "hub" not in site.roles):
        start_node(place, found, site, say)
    if not found.bare:
        control.await_healthy(place, found.blueprint)
    say(f"the lab in {place.root} is up")


def _make(place: Place, seats: tuple[roster.Seat, ...], bare: bool, say: Say) -> None:
    began_s = time.monotonic()

    def step(text: str) -> None:
        say(f"{time.monotonic() - began_s:5.1f} s  {text}")

    with record.addresses_claimed():
        lab_id = _new_id()
        drawn = blueprints.draw(lab_id, subnet.choose(lab_id, network.networks_in_use()), seats)
        record.write(place, Record(drawn, bare=bare))  # before the first part exists, because `down` needs it
        network.lay_bridge(drawn)
    step(f"bridge {drawn.bridge} with {drawn.subnet}")
    for name, text in podman_files.files(drawn.registry).items():
        record.replace(os.path.join(place.podman, name), text.encode(), 0o644)
    trust: list[str] = []
    works: list[Callable[[], None]] = [
        partial(_registry, place, drawn, step),
        *(partial(_boot, place, drawn, site, step) for site in drawn.sites),
    ]
    if not bare:
        works.append(lambda: trust.append(control.lay_out(place)))
    in_parallel(works)
    if not bare:
        _found(place, drawn, trust[0], step)
    record.write(place, Record(drawn, "up", bare=bare))
    step("up")


def _new_id() -> str:
    """An id that no existing link uses; a collision of eight random digits is unlikely but possible."""
    while True:
        lab_id = os.urandom(4).hex()
        if not any(name.startswith(f"hf{lab_id}") for name in os.listdir(network.LINKS)):
            return lab_id


def _registry(place: Place, drawn: Blueprint, step: Say) -> None:
    made: list[Image] = []
    in_parallel([partial(registry.start, place, drawn), lambda: made.extend(samples.images())])
    registry.push(drawn, made)
    step(f"registry {drawn.registry} with {', '.join(f'{image.name}:{image.tag}' for image in made)}")


def _boot(place: Place, drawn: Blueprint, site: Site, step: Say) -> None:
    node.boot(place, drawn, site)
    step(f"node {site.name} at {site.address}")


def _found(place: Place, drawn: Blueprint, trust: str, step: Say) -> None:
    control.make_hub(place, drawn, trust)
    control.start_hub(place, drawn, "normal")
    step(f"hub at {drawn.hub_url}")
    control.apply(place, drawn)
    step("fleet applied")
    in_parallel([partial(_enrol, place, drawn, site, step) for site in drawn.sites])
    control.await_healthy(place, drawn)
    step("every node is healthy")
    control.record_identities(place, drawn)
    control.keep_bundle(place, drawn)
    step("identities applied")


def _enrol(place: Place, drawn: Blueprint, site: Site, step: Say) -> None:
    control.enrol(place, drawn, site)
    step(f"agent of {site.name} joined")


# ---- restarting ------------------------------------------------------------------------------------------------------


def start_hub(place: Place, found: Record, say: Say) -> None:
    if found.bare:
        raise _is_bare()
    if control.part_lives(place, control.HUB):
        say("the hub is already running")
        return
    control.start_hub(place, found.blueprint, found.pace)
    say(f"hub at {found.blueprint.hub_url}")


def start_node(place: Place, found: Record, site: Site, say: Say) -> None:
    if node.init_of(place, site) is None:
        node.boot(place, found.blueprint, site)
        say(f"node {site.name} at {site.address}")
    if found.bare:
        return
    if "hub" in site.roles and not control.part_lives(place, control.HUB):
        start_hub(place, found, say)
    if not control.part_lives(place, control.agent_part(site)):
        control.start_agent(place, found.blueprint, site)
        say(f"agent of {site.name} started")


def _is_bare() -> Invalid:
    return Invalid(
        "this lab has no hub: it was created with --bare",
        remedy="`holdfast lab down`, then `holdfast lab up` without --bare",
    )
