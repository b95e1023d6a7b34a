"""Run curl as a client outside the fleet: with the lab's names and CA certificates."""

import os
import subprocess
from collections.abc import Callable, Sequence

from holdfast.errors import HoldfastError
from holdfast.lab import command, control, visitor, whereabouts
from holdfast.lab.blueprint import Blueprint
from holdfast.lab.place import Place
from holdfast.lab.record import Record


def curl(place: Place, found: Record, url: str, more: Sequence[str], say: Callable[[str], None]) -> int:
    command.require(["curl"])
    host, _ = visitor.asked(url)
    address = whereabouts.address_of(host, found.blueprint)
    bundle = None if found.bare or visitor.stays_plain(url, more) else _bundle(place, found.blueprint, say)
    return subprocess.run(visitor.arguments(url, address, bundle, more)).returncode


def _bundle(place: Place, blueprint: Blueprint, say: Callable[[str], None]) -> str | None:
    """The current bundle; if the hub cannot be reached, the stored one."""
    try:
        control.keep_bundle(place, blueprint)
    except (HoldfastError, OSError) as trouble:
        say(f"using the stored CA certificates, because the hub cannot be reached: {trouble}")
    return place.bundle if os.path.exists(place.bundle) else None
