"""A lab as a whole: create, inspect, break, heal and remove it."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from holdfast.errors import Invalid, NotPermitted
from holdfast.lab import (
    control,
    image_work,
    inside,
    inspection,
    making,
    network,
    node,
    visit,
)
from holdfast.lab import record as records
from holdfast.lab.blueprint import Site
from holdfast.lab.firewall import added
from holdfast.lab.place import Place
from holdfast.lab.record import Record
from holdfast.lab.sweep import sweep
from holdfast.model.lab import LabStatus


class Laboratory:
    """`say` receives progress lines."""

    def __init__(self, directory: str, say: Callable[[str], None]) -> None:
        self._place = Place(os.path.abspath(directory))
        self._say = say

    # ---- creating and removing

    def up(self, nodes: str, bare: bool) -> None:
        _as_root()
        making.up(self._place, nodes, bare, self._say)

    def down(self) -> None:
        _as_root()
        if not os.path.isdir(self._place.root):
            self._say(f"there is no lab in {self._place.root}")
            return
        with records.locked(self._place):
            found = records.read(self._place)
            if found is None:
                self._say(f"there is no lab in {self._place.root}")
                os.unlink(self._place.lock)
            else:
                sweep(self._place, found.blueprint)
                self._say(f"the lab in {self._place.root} is removed")
            if not os.listdir(self._place.root):
                os.rmdir(self._place.root)

    # ---- inspecting

    def status(self) -> LabStatus:
        return inspection.status(self._place, self._record().blueprint)

    def cuts(self) -> tuple[tuple[str, str], ...]:
        return self._record().cuts

    def variables(self) -> Mapping[str, str]:
        return control.variables(self._place, self._record().blueprint)

    def run_inside(self, name: str, words: Sequence[str]) -> int:
        _as_root()
        blueprint = self._record().blueprint
        site = blueprint.site(name)
        return inside.run(self._init(site), words, control.caller_environment(self._place, blueprint, site))

    def curl(self, url: str, more: Sequence[str]) -> int:
        return visit.curl(self._place, self._record(), url, more, self._say)

    # ---- breaking and healing

    def cut(self, name: str, other: str | None) -> None:
        _as_root()
        with records.locked(self._place):
            found = self._record()
            ends = [found.blueprint.site(one).name for one in (name, other) if one is not None]
            if len(set(ends)) != len(ends):
                raise Invalid(f"{name} cannot be cut from itself", remedy="give one node, or two different ones")
            self._cut(found, added(found.cuts, name, other or ""))

    def heal(self) -> None:
        _as_root()
        with records.locked(self._place):
            self._cut(self._record(), ())

    def _cut(self, found: Record, cuts: tuple[tuple[str, str], ...]) -> None:
        """Recorded first, so that the record always covers the existing rules."""
        records.write(self._place, Record(found.blueprint, found.phase, cuts, found.pace, found.bare))
        network.cut(found.blueprint, cuts)

    def kill(self, target: str, agent_only: bool) -> None:
        _as_root()
        with records.locked(self._place):
            blueprint = self._record().blueprint
            if target == control.HUB:
                control.end_part(self._place, control.HUB)
                return
            site = blueprint.site(target)
            if agent_only:
                control.end_part(self._place, control.agent_part(site))
                return
            node.power_off(self._place, blueprint, site)

    def start(self, target: str) -> None:
        """Start what is not running; a node that was switched off boots with all its parts."""
        _as_root()
        with records.locked(self._place):
            found = self._record()
            if target == control.HUB:
                making.start_hub(self._place, found, self._say)
            else:
                making.start_node(self._place, found, found.blueprint.site(target), self._say)

    def fast(self) -> None:
        _as_root()
        with records.locked(self._place):
            found = self._record()
            quick = Record(found.blueprint, found.phase, found.cuts, "fast", found.bare)
            records.write(self._place, quick)
            control.end_part(self._place, control.HUB)
            making.start_hub(self._place, quick, self._say)

    # ---- images

    def load_image(self, file: str) -> tuple[str, ...]:
        return self._images(partial(image_work.load, file=file))

    def build_image(self, directory: str, name: str | None) -> tuple[str, ...]:
        return self._images(partial(image_work.build, folder=directory, name=name))

    def _images(self, work: Callable[..., tuple[str, ...]]) -> tuple[str, ...]:
        _as_root()
        with records.locked(self._place):
            blueprint = self._record().blueprint
            env = node.environment(blueprint, blueprint.hub)
            return work(blueprint, self._init(blueprint.hub), env)

    # ---- shared

    def _record(self) -> Record:
        found = records.read(self._place)
        if found is None or found.phase != "up":
            state = "there is no lab" if found is None else "there is only an incomplete lab"
            up = "holdfast lab up" if found is None else "`holdfast lab down`, then `holdfast lab up`"
            raise Invalid(
                f"{state} in {self._place.root}",
                remedy=f"{up}; choose another directory with --dir or $HOLDFAST_LAB",
                code="no_lab",
            )
        return found

    def _init(self, site: Site) -> int:
        return control.running(self._place, site)


def _as_root() -> None:
    if os.geteuid() != 0:
        raise NotPermitted("a lab needs root, to create namespaces and network links", remedy="repeat it with sudo")
