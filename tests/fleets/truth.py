"""Ask every command about a service that is not well: which of them call it well all the same?"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.fleets.traffic_scene import DOMAIN, TRUTH_S, TrafficScene
from tests.fleets.waiting import Stopwatch, wait_until


class Verdicts:
    """What the commands answered at one moment, for all services at once."""

    def __init__(self, scene: TrafficScene) -> None:
        questions = (("status",), ("ps",), ("edge", "list"), ("status", "--check"))
        with ThreadPoolExecutor(2) as pool:
            status, ps, edges, check = pool.map(lambda words: scene.run(*words, "--json"), questions)
        self.findings: list[dict[str, Any]] = status.ok().json["findings"]
        self.rows: list[dict[str, Any]] = ps.ok().json["services"]
        self.edges: list[dict[str, Any]] = edges.ok().json["edges"]
        self.check = check.code

    def liars(self, name: str, *places: str) -> list[str]:
        """Commands that call this service well. `places` are the nodes whose trouble it is, if it is not its own."""
        found = []
        about = {f"service.{name}", *(f"node.{node}" for node in places)}
        told = [one for one in self.findings if one["address"] in about or f"{name}.{DOMAIN}" in one["message"]]
        if not told:
            found.append(f"status: {[(one['code'], one['address']) for one in self.findings]}")
        if self.check == 0:
            found.append("status --check")
        mine = [row for row in self.rows if row["name"] == name]
        for row in mine:
            is_public = any(one["hostname"] == f"{name}.{DOMAIN}" for one in self.edges)
            if (row["urls"] if is_public else row["state"] == "running") and row["verified"]:
                found.append(f"ps: {row}")
        if not mine:
            found.append("ps: nothing of it")
        found += [f"edge list: {one}" for one in self.edges if one["service"] == name and one["status"] == "live"]
        return found


def none_calls_it_well(scene: TrafficScene, *names: str, places: tuple[str, ...] = ()) -> Verdicts:
    """Within the time in which a lie may last, no command calls one of these services well."""
    last: list[Verdicts] = []

    def liars() -> dict[str, list[str]]:
        last[:] = [Verdicts(scene)]
        return {name: found for name in names if (found := last[0].liars(name, *places))}

    watch = Stopwatch()
    wait_until(lambda: not liars(), lambda: liars())
    assert watch.within(TRUTH_S), f"{names}: the truth took {watch}"
    for name in names:
        hostname = f"{name}.{DOMAIN}"
        if any(one["hostname"] == hostname for one in last[0].edges):
            assert scene.run("edge", "status", hostname, "--json").code == 1, f"edge status calls {hostname} well"
    return last[0]


def alarms_of(scene: TrafficScene, *names: str) -> Callable[[], set[str]]:
    """Those of these services that no alarm was sent for yet."""

    def missing() -> set[str]:
        heard = {address.removeprefix("service.") for _, address in list(scene.ear.heard)}
        return set(names) - heard

    return missing
