"""The fleet.toml of a lab: the file of `holdfast init` with the lab's settings and nodes. Pure."""

import json
import re

from holdfast.lab.blueprint import INTERNAL_ZONE, PUBLIC_DOMAIN, Blueprint


def settled(written: str, blueprint: Blueprint, hub_key: str) -> str:
    """Operators and trust stay unchanged; [fleet] and [[nodes]] are the lab's."""
    without_nodes = re.sub(r"(?m)^\[\[nodes\]\]\n(?:[a-z_]+ = .*\n)*", "", written)
    settings = {
        "hub": blueprint.hub_url,
        "hub_key": hub_key,
        "internal_zone": INTERNAL_ZONE,
        "public_domains": [PUBLIC_DOMAIN],
    }
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    text = re.sub(r"(?m)^\[fleet\]\n", lambda _: f"[fleet]\n{lines}", without_nodes, count=1)
    return _uncommented(text) + "".join(_node(blueprint, index) for index in range(len(blueprint.sites)))


def _uncommented(text: str) -> str:
    """Removes the starter's comments, which do not apply to a lab, and surplus empty lines."""
    kept = [line for line in text.splitlines() if not line.startswith("#")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip() + "\n"


def _node(blueprint: Blueprint, index: int) -> str:
    site = blueprint.sites[index]
    keys = {"name": site.name, "roles": list(site.roles), "address": site.address}
    if "edge" in site.roles:
        keys["public_address"] = site.address  # in a lab the host, on the same bridge, plays the internet
    return "\n[[nodes]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
