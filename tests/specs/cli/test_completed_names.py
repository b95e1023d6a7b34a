"""Completion offers the names that a fleet directory declares, and those that follow from it (N44)."""

import pytest

from holdfast.adapters.fleet_directory.memory import MemoryFleetDirectory
from holdfast.cli.shell.names import names

FLEET = b'[fleet]\nname = "small"\npublic_domains = ["example.test", "example.org"]\n'
ROUTES = b"""
[[components]]
name = "web"
[[components.routes]]
name = "http"
port = 8080
public = true
[[components.routes]]
name = "api"
port = 8081
public = true
hostname = "api.example.org"
[[components.routes]]
name = "inside"
port = 8082
"""


def hostnames(fleet: bytes) -> list[str]:
    directory = MemoryFleetDirectory({"fleet.toml": fleet, "services/shop.toml": ROUTES, "services/bad.toml": b"= "})
    return names("hostnames", directory)


def test_a_public_route_without_a_hostname_has_the_derived_one_n44() -> None:
    assert hostnames(FLEET) == ["api.example.org", "shop.example.test"]


@pytest.mark.parametrize(
    "fleet",
    [
        b"",
        b"= broken",
        b"fleet = 3",
        *(b"[fleet]\npublic_domains = " + it for it in (b"3", b"[]", b"[7]", b'["$(x)"]')),
    ],
)
def test_without_a_public_domain_only_declared_hostnames_are_offered_n44(fleet: bytes) -> None:
    assert hostnames(fleet) == ["api.example.org"]
