"""Every volume has a protection decision that can be shown (I-32, M-91, H-57)."""

import msgspec
import pytest

from holdfast.model.coverage import Covered, is_backed_up, of_service, own_place
from holdfast.model.fleet import Service


def service(*volumes: object, **more: object) -> Service:
    component = {"name": "app", "image": "r/app:1", "volumes": list(volumes)}
    return msgspec.convert({"components": [component], **more}, Service)


def test_a_volume_is_held_whole_or_not_as_declared() -> None:
    found = of_service(
        "web",
        service(
            {"name": "data", "path": "/data", "protect": "backup"},
            {"name": "cache", "path": "/cache", "protect": "none"},
            {"name": "media", "path": "/media", "protect": "own:nas"},
        ),
    )
    assert found == (
        Covered("app", "data", "data", "whole", "backup"),
        Covered("app", "cache", "cache", "none", "none"),
        Covered("app", "media", "media", "none", "own:nas"),
    )
    assert is_backed_up(found) and not is_backed_up(found[1:])


def test_a_path_of_the_host_is_held_in_part_unless_a_method_says_more_m91() -> None:
    own, other = "/srv/web/files:/data", "/media/films:/films"
    assert of_service("web", service(own, other)) == (
        Covered("app", own, "files", "partial", ""),
        Covered("app", other, None, "none", ""),
    )
    assert [one.extent for one in of_service("web", service(own, other, snapshot={"method": "full"}))] == [
        "whole",
        "none",
    ]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/srv/web", ""),
        ("/srv/web/", ""),
        ("/srv/web/a/b", "a/b"),
        ("/srv/web//a/", "a"),
        ("/srv/webs/a", None),
        ("/srv/web/../shop", None),
        ("/srv/web/./a", None),
        ("/srv", None),
        ("/etc", None),
    ],
)
def test_only_paths_inside_the_own_directory_are_own_places(path: str, place: str | None) -> None:
    assert own_place("web", path) == place
