"""What left a manifest: removed goes at once, moved serves until its new home is proven, data never serves on."""

import pytest
from msgspec.structs import replace

from holdfast.model.container import ContainerSpec, Guest, Mount, Part, spec_digest
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Entry, Tombstone
from holdfast.reconcile.leaving import serves_on

WEB = "service.web"
DIGEST = "0" * 64
MANIFEST = NodeManifest(DIGEST, "w1", DIGEST, Entry(DIGEST))


def guest(*mounts: Mount, active: bool = True) -> Guest:
    spec = ContainerSpec(DIGEST, "web", "main", 1, "reg.test/web", "", mounts=mounts)
    return Guest("web", "f" * 16, 1, (Part(spec, spec_digest(spec)),), active)


def test_what_moved_away_serves_until_it_is_released() -> None:
    assert serves_on(MANIFEST, WEB, guest(), ())
    assert serves_on(MANIFEST, WEB, guest(), ("service.other",))
    assert not serves_on(MANIFEST, WEB, guest(), (WEB,))


@pytest.mark.parametrize(
    ("manifest", "serving"),
    [
        (replace(MANIFEST, retired={WEB: Tombstone(DIGEST, 2, "w1")}), guest()),  # removed
        (replace(MANIFEST, standby={WEB: Entry(DIGEST, "w2", failover=("w1",))}), guest()),  # the hub's word ends it
        (replace(MANIFEST, services={WEB: Entry(DIGEST, "w1")}), guest()),  # wanted
        (MANIFEST, None),  # it never served
        (MANIFEST, guest(active=False)),
        (MANIFEST, guest(Mount("/srv/web/data", "/data"))),  # a second writer would be worse than none
    ],
)
def test_everything_else_is_not_kept_running(manifest: NodeManifest, serving: Guest | None) -> None:
    assert not serves_on(manifest, WEB, serving, ())
