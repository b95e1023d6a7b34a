"""R11, O-33: a manifest that rotted in the ledger is found, quarantines its node, and is healed by `holdfast apply`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.product import new_place, warm
from tests.lab.test_boot_table import blob, checked, digest_of, flip_one_bit, running_hub, status, status_at

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("online", [False, True], ids=["offline", "through a hub"])
def test_an_apply_without_changes_mends_a_rotted_manifest(online: bool, tmp_path: Path) -> None:
    with warm() as plain:
        place = new_place(tmp_path / "p")
        plain.run(place, "apply", "--yes").ok()
        manifests: dict[str, str] = json.loads(blob(place, digest_of(place, "header")))["manifests"]
        node, digest = next(iter(manifests.items()))
        flip_one_bit(place, digest)
        code, findings = checked(place, plain)
        assert code == 7
        assert [(f["code"], f["address"]) for f in findings] == [("manifest_damaged", f"node.{node}")]
        shown = status(place, plain)
        assert shown["quarantined"] == [f"node.{node}"]
        assert "holdfast apply" in shown["findings"][0]["remedy"]
        if online:
            with running_hub(place) as url:
                plain.run(place, "apply", "--yes", "--hub", url).ok()
                healed = status_at(url, place, plain)
                assert (healed["quarantined"], healed["findings"]) == ([], [])
        else:
            plain.run(place, "apply", "--yes").ok()
        assert checked(place, plain) == (0, [])
        assert status(place, plain)["serving"]["number"] == 1
