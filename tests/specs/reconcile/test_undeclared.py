"""Which directories of an image the service file does not answer for (N14)."""

import pytest
from msgspec.structs import replace

from holdfast.model.container import Mount
from holdfast.reconcile.undeclared import undeclared
from tests.specs.reconcile.guests import part

BASE = part("db", "1")


@pytest.mark.parametrize(
    ("mounted", "scratch", "declared", "left"),
    [
        ((), (), (), ()),
        ((), (), ("/data", "/cache"), ("/cache", "/data")),
        (("/data",), (), ("/data",), ()),
        (("/data/",), (), ("/data",), ()),
        (("/var",), (), ("/var/lib", "/var"), ()),
        (("/var/lib",), (), ("/var",), ("/var",)),
        (("/data",), (), ("/database",), ("/database",)),
        ((), ("/data",), ("/data", "/data/inner"), ()),
        (("/a",), ("/b",), ("/a", "/b", "/c"), ("/c",)),
        ((), (), ("data", "//twice//", "/a/../b/."), ("/b", "/data", "/twice")),
        ((), (), ("/a/b\nc/d", "/\x1b", "/" + "x" * 2000, ""), ("/", "/a")),
        ((), ("/",), ("/a/b\nc/d", "/" + "x" * 2000), ()),
    ],
)
def test_a_volume_or_scratch_answers_for_what_lies_in_it_n14(
    mounted: tuple[str, ...], scratch: tuple[str, ...], declared: tuple[str, ...], left: tuple[str, ...]
) -> None:
    mounts = tuple(Mount(f"/srv/shop/{n}", path) for n, path in enumerate(mounted))
    assert undeclared(replace(BASE, spec=replace(BASE.spec, mounts=mounts), scratch=scratch), declared) == left
