"""A public authority beside a lab: on the bridge, where edges reach it and it reaches their port 80; the names it is
asked to vouch for lead to the edge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.fleets.acme import Names, PublicCa
from tests.fleets.traffic_scene import EDGE, TrafficScene


@contextmanager
def public_authority(scene: TrafficScene, hostnames: Sequence[str]) -> Iterator[PublicCa]:
    """Applied for these hostnames alone, so that the others of the lab keep the certificates they have."""
    host = scene.registry.partition(":")[0]
    known = dict.fromkeys(hostnames, scene.addresses[EDGE])
    path = scene.fleet / "fleet.toml"
    before = path.read_text()
    with Names(known, host), PublicCa(scene.room / "acme", host, address=host) as authority:
        settings = {
            "directory": authority.directory,
            "contact": ["mailto:ops@example.test"],
            "terms_agreed": True,
            "ca": authority.root,
            "domains": list(hostnames),
        }
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        # A command that waits for a certificate in vain need not do so for long.
        path.write_text(f'{before}\n[acme]\n{lines}\n[timeouts]\nedge_route = "8s"\n')
        scene.run("apply", "--yes").ok()
        try:
            yield authority
        finally:
            path.write_text(before)
            scene.run("apply", "--yes").ok()
