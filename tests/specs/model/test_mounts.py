"""Volumes inside volumes: the one way a container could choose what another one mounts."""

import pytest

from holdfast.model.container import ContainerSpec, name_of
from holdfast.model.fleet import Component, Service, Volume
from holdfast.model.mounts import nested

FILES = Volume("files", "/data", "none")


@pytest.mark.parametrize(
    ("volumes", "found"),
    [
        ((), None),
        (("/srv/web:/a", "/srv/web:/b"), None),
        (("/srv/web/a:/a", "/srv/web/ab:/b", FILES), None),
        (("/srv/web:/a", "/srv/web/b:/b"), ("/srv/web/b", "/srv/web")),
        (("/srv/web/b/:/b", "/srv/web/b/c:/a"), ("/srv/web/b/c", "/srv/web/b")),
        (("/srv/web:/a", FILES), ("/srv/web/files", "/srv/web")),
        (("/:/host", "/etc:/etc"), ("/etc", "/")),
        (("//srv//web:/a", "/srv/web/./b:/b"), ("/srv/web/b", "/srv/web")),
    ],
)
def test_one_source_inside_another_is_found(volumes: tuple[str | Volume, ...], found: tuple[str, str] | None) -> None:
    one = Service((Component("main", "x", volumes=volumes),))
    assert nested(one, "web") == found
    apart = Service(tuple(Component(f"c{n}", "x", volumes=(volume,)) for n, volume in enumerate(volumes)))
    assert nested(apart, "web") == found


def test_no_service_can_make_a_name_of_another_ones_container() -> None:
    """32 bits of a digest are found by trying, and files of secrets are named like the container."""

    def name(service: str, component: str) -> str:
        return name_of(ContainerSpec("f" * 64, service, component, 1, "x", ""), "0" * 64, 0)

    assert name("a", "b-c") != name("a-b", "c")
