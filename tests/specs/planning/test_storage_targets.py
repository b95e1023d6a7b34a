"""Storage targets in a revision: who gets them, what they are, and in which order they are read."""

from itertools import permutations

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.acceptance.manifest import decode_manifest, read_manifest
from holdfast.errors import Corrupt
from holdfast.model import canonical, storage_target
from holdfast.model.fleet import Component, Retain, Service, Storage
from holdfast.model.revision import decode_table
from holdfast.model.storage_target import Bucket
from holdfast.planning.manifests import compile_manifests
from holdfast.planning.plan import Inputs, plan
from tests.fleets.build import ALICE, digest_pinned, small_fleet
from tests.fleets.sealing import sealed_to

FLEET = small_fleet(
    {"web": Service((Component("main", digest_pinned("web:1")),), node="w1")}, nodes=("w1", "w2"), operators=(ALICE,)
)
BUCKET = Storage("cold", "s3", "cold-1", location="https://s3.example.com/backups/f", nodes=("w1",), secret="keys")
BOX = Storage("box", "local-dir", "box-1", location="/srv/box")


def test_the_nodes_that_a_target_names_get_it_with_its_sealed_credentials_and_no_other_node_does() -> None:
    sealed = sealed_to("w1")
    found = plan(replace(FLEET, storage={"cold": BUCKET, "box": BOX}, secrets={"keys": sealed}), None, Inputs())
    assert found.candidate is not None
    table = decode_table(found.candidate.table)
    made = {node: decode_manifest(text) for node, text in compile_manifests("f" * 64, table).items()}
    assert {node: sorted(one.storage) for node, one in made.items()} == {
        "w1": ["storage.box", "storage.cold"],
        "w2": ["storage.box"],
    }
    assert made["w1"].storage["storage.cold"].secrets == {"keys": canonical.digest(sealed)}
    assert made["w2"].storage["storage.box"].applies_to is UNSET
    wrong = replace(made["w2"], storage={"storage.cold": made["w1"].storage["storage.cold"]})
    with pytest.raises(Corrupt, match="is not for this node to use"):
        read_manifest(canonical.encode(wrong), "f" * 64, "w2")


def test_a_fleet_without_targets_compiles_to_the_same_bytes() -> None:
    with_box = plan(replace(FLEET, storage={"box": replace(BOX, nodes=("w1",))}), None, Inputs())
    plain = plan(FLEET, None, Inputs())
    assert with_box.candidate is not None and plain.candidate is not None
    one, other = (compile_manifests("f" * 64, decode_table(p.candidate.table)) for p in (with_box, plain))  # type: ignore[union-attr]
    assert one["w2"] == other["w2"] and one["w1"] != other["w1"]


def test_a_restore_reads_fast_targets_first_and_offsite_ones_last() -> None:
    order = (
        Storage("disk", "local-dir", "a", speed="fast"),
        None,  # the hub
        Storage("cold", "s3", "e", speed="fast", role="offsite"),
        Storage("nas", "local-dir", "n:/x"),
        Storage("zoo", "local-dir", "z:/x"),
        Storage("far", "restic", "f"),
        Storage("abroad", "s3", "g", role="offsite"),
    )
    for shuffled in list(permutations(order))[::97]:
        assert tuple(sorted(shuffled, key=storage_target.reading_rank)) == order


@pytest.mark.parametrize(
    ("target", "is_same"),
    [
        (Storage("a", "usb", "x"), True),
        (Storage("a", "local-dir", "box-1"), True),
        (Storage("a", "local-dir", "nas:/export"), False),
        (Storage("a", "restic", "x", location="/mnt/repo"), True),
        (Storage("a", "restic", "x", location="sftp:u@h:/repo"), False),
        (Storage("a", "restic", "x", location="rest:https://h/"), False),
        (Storage("a", "s3", "x", location="https://h/b"), False),
    ],
)
def test_a_copy_on_a_disk_of_the_machine_counts_as_none(target: Storage, is_same: bool) -> None:
    assert storage_target.is_same_machine(target) is is_same


def test_the_address_of_a_bucket() -> None:
    assert storage_target.bucket("https://s3.example.com/backups") == Bucket(
        endpoint="https://s3.example.com", name="backups"
    )
    assert storage_target.bucket("http://127.0.0.1:8333/backups/a/b/") == Bucket(
        endpoint="http://127.0.0.1:8333", name="backups", prefix="a/b"
    )
    for wrong in ("", "s3.example.com/b", "https://h", "https://h/", "https://h/B", "https://u:p@h/b", "ftp://h/b/c"):
        assert storage_target.bucket(wrong) is None, wrong


def test_fewer_of_any_count_is_fewer() -> None:
    table = Retain(last=3, daily=7, weekly=4, monthly=12)
    assert not storage_target.keeps_fewer(3, table) and storage_target.keeps_fewer(4, table)
    assert storage_target.keeps_fewer(table, 1000), "the newest thousand are no month"
    for key in ("last", "daily", "weekly", "monthly"):
        assert storage_target.keeps_fewer(table, replace(table, **{key: getattr(table, key) - 1}))
        assert not storage_target.keeps_fewer(table, replace(table, **{key: getattr(table, key) + 1}))
